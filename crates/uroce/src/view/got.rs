//! Redirects the calls of the loaded objects: writes the addresses of this library's functions into their
//! global offset tables (GOT), where the dynamic linker has written those of libc's.
//!
//! Invariants: an entry is one aligned word and is written by one store, so a thread that calls through it
//! meanwhile calls one function or the other. Nothing is remembered about an object but that it was
//! handled, so an object may be unloaded at any time. What another tool has redirected stays as it is.
//!
//! With the dynamic linker's lock held, no memory is allocated (`reserved.rs`).
//!
//! Left out: libc and the dynamic linker, and other copies of this library, which are recognised by a note in
//! their files. This library's own calls go to libc.

use core::ffi::{CStr, c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use libc::{Elf64_Phdr, Elf64_Rela, Elf64_Sym, dl_phdr_info};

use super::reserved::Reserved;
use crate::arch;
use crate::sync::Mutex;

const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// The loadable segments of libc, or of another copy of this library: where there are more, the objects are
/// looked through again.
const SEGMENTS: usize = 16;
/// Entries that are written at once.
const ENTRIES: usize = 64;

/// A function to redirect.
pub struct Redirection {
    /// The function's name in libc.
    pub name: &'static CStr,
    /// This library's function.
    pub to: *const c_void,
    /// The function's address in the program: what dlsym(3) finds; 0 if there is none.
    pub address: AtomicUsize,
    /// The first definition: the same, unless the address is the program's PLT entry (`definition.rs`).
    pub definition: AtomicUsize,
}

impl Redirection {
    /// Whether a function is the one that the program's calls reach, by its address or its definition.
    pub fn is_first(&self, function: usize) -> bool {
        let first = [&self.address, &self.definition];
        function != 0
            && first
                .iter()
                .any(|first| first.load(Ordering::Relaxed) == function)
    }
}

// SAFETY: the pointer is a function's address, which nobody writes to.
unsafe impl Sync for Redirection {}

/// The note by which copies of this library recognise each other (`.note` sections: elf(5)).
#[repr(C)]
struct Note {
    name_size: u32,
    descriptor_size: u32,
    kind: u32,
    name: [u8; 12],
}

const NOTE: Note = Note {
    name_size: 12,
    descriptor_size: 0,
    kind: 1,
    name: *b"uroce view\0\0",
};

#[used]
// SAFETY: the section holds notes in the format of elf(5), and nothing writes to it.
#[unsafe(link_section = ".note.uroce")]
static OWN_NOTE: Note = NOTE;

/// A loaded object.
struct LoadedObject {
    base: usize,
    headers: &'static [Elf64_Phdr],
}

/// The identity of an object that was handled.
type Handled = (usize, *const Elf64_Phdr);

/// The objects that were handled, and how many had been loaded and unloaded by then.
struct Progress {
    handled: Vec<Handled>,
    loaded: u64,
    unloaded: u64,
}

// SAFETY: the pointers are compared only.
unsafe impl Send for Progress {}

/// A set of redirections, and the objects whose calls have been redirected.
pub struct Redirections {
    /// Sorted by name.
    list: &'static [Redirection],
    progress: Mutex<Progress>,
    /// The value of [`Progress::loaded`], for a comparison without the lock.
    loaded: AtomicU64,
}

impl Redirections {
    /// Redirections, sorted by name, of which no object has any yet.
    pub const fn new(list: &'static [Redirection]) -> Redirections {
        Redirections {
            list,
            progress: Mutex::new(Progress {
                handled: Vec::new(),
                loaded: 0,
                unloaded: 0,
            }),
            loaded: AtomicU64::new(0),
        }
    }

    /// Locks what is known of the objects, so that it is whole in a child of fork.
    /// [`Redirections::after_fork`] unlocks it.
    pub fn before_fork(&self) {
        core::mem::forget(self.progress.lock());
    }

    /// Unlocks it in the parent and in the child.
    ///
    /// # Safety
    /// This thread has called [`Redirections::before_fork`], and has not called this since.
    pub unsafe fn after_fork(&self) {
        // SAFETY: `before_fork` locked it in this thread, as the caller says.
        unsafe { self.progress.force_unlock() };
    }
}

/// The parameters of one pass over the objects.
struct Pass<'a> {
    redirections: &'a [Redirection],
    /// A function of libc, in whose object an entry may point.
    libc: usize,
    own: usize,
    progress: &'a mut Progress,
    /// The addresses of libc and of other copies of this library.
    libc_ranges: Reserved<Range<usize>>,
    copies: Reserved<Range<usize>>,
    /// The number of objects.
    objects: usize,
    /// The entries of an object to write, and what to write.
    entries: Reserved<(usize, usize)>,
    phase: Phase,
}

#[derive(PartialEq)]
enum Phase {
    Survey,
    Redirect,
}

/// Redirects the calls of all objects that were loaded since the last call. `libc` is the address of a
/// function of libc.
pub fn redirect(redirections: &Redirections, libc: usize) {
    let loaded = loaded();
    if redirections.loaded.load(Ordering::Acquire) == loaded {
        return;
    }
    // Another thread may be about to redirect what this one has loaded: wait for it.
    let mut progress = redirections.progress.lock();
    if progress.loaded == loaded {
        return;
    }
    progress.loaded = loaded;
    let mut pass = Pass {
        redirections: redirections.list,
        libc,
        own: redirect as *const () as usize,
        progress: &mut progress,
        libc_ranges: Reserved::with_room(SEGMENTS),
        copies: Reserved::with_room(SEGMENTS),
        objects: 0,
        entries: Reserved::with_room(ENTRIES),
        phase: Phase::Survey,
    };
    loop {
        pass.objects = 0;
        pass.visit_all();
        let repeats = [&mut pass.libc_ranges, &mut pass.copies].map(Reserved::must_repeat);
        if repeats == [false; 2] {
            break;
        }
        pass.libc_ranges.clear();
        pass.copies.clear();
    }
    pass.progress.handled.reserve(pass.objects);
    pass.phase = Phase::Redirect;
    pass.visit_all();
    // With the lock held, so that no older number overwrites it.
    redirections.loaded.store(loaded, Ordering::Release);
    drop(progress);
}

/// How many objects have been loaded so far.
fn loaded() -> u64 {
    unsafe extern "C" fn first(info: *mut dl_phdr_info, _: usize, count: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr passes a valid structure; `count` is that of the function around this.
        unsafe { *count.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut count = 0_u64;
    // SAFETY: `first` has the type that dl_iterate_phdr needs, and gets the count, which outlives it.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

unsafe extern "C" fn visit(info: *mut dl_phdr_info, _: usize, pass: *mut c_void) -> c_int {
    // SAFETY: `redirect` passes a pass that nobody else uses meanwhile; dl_iterate_phdr passes a valid
    // structure. It holds the dynamic linker's lock, so that the object stays loaded during this call.
    let (info, pass) = unsafe { (&*info, &mut *pass.cast::<Pass>()) };
    // SAFETY: the object has this many program headers, as long as it is loaded.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let object = LoadedObject {
        base: info.dlpi_addr as usize,
        headers,
    };
    match pass.phase {
        Phase::Survey => pass.survey(&object, info.dlpi_subs),
        Phase::Redirect => pass.redirect(&object),
    }
    0
}

impl LoadedObject {
    fn segments(&self, kind: u32) -> impl Iterator<Item = Range<usize>> {
        let of_kind = self
            .headers
            .iter()
            .filter(move |header| header.p_type == kind);
        of_kind.map(|header| {
            let start = self.base.wrapping_add(header.p_vaddr as usize);
            start..start.wrapping_add(header.p_memsz as usize)
        })
    }

    fn contains(&self, address: usize) -> bool {
        self.segments(libc::PT_LOAD)
            .any(|range| range.contains(&address))
    }

    fn has_note(&self) -> bool {
        let loaded = |range: &Range<usize>| {
            !range.is_empty() && self.contains(range.start) && self.contains(range.end - 1)
        };
        self.segments(libc::PT_NOTE).filter(loaded).any(|range| {
            // SAFETY: the segment is part of what is loaded of the object.
            let bytes =
                unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len()) };
            bytes.windows(NOTE.name.len()).any(|name| name == NOTE.name)
        })
    }

    fn handled(&self) -> Handled {
        (self.base, self.headers.as_ptr())
    }
}

impl Pass<'_> {
    fn visit_all(&mut self) {
        // SAFETY: `visit` has the type that dl_iterate_phdr needs, and gets the pass, which outlives it.
        unsafe { libc::dl_iterate_phdr(Some(visit), core::ptr::from_mut(self).cast()) };
    }

    fn survey(&mut self, object: &LoadedObject, unloaded: u64) {
        if self.progress.unloaded != unloaded {
            self.progress.unloaded = unloaded;
            self.progress.handled.clear();
        }
        self.objects += 1;
        let ranges = object.segments(libc::PT_LOAD);
        if object.contains(self.libc) {
            ranges.for_each(|range| self.libc_ranges.push(range));
        } else if !object.contains(self.own) && object.has_note() {
            ranges.for_each(|range| self.copies.push(range));
        }
    }

    fn redirect(&mut self, object: &LoadedObject) {
        let handled = &mut self.progress.handled;
        // Without room, it was loaded behind the survey: the next call of `redirect` handles it.
        if handled.contains(&object.handled()) || handled.len() == handled.capacity() {
            return;
        }
        handled.push(object.handled());
        let is_own = object.contains(self.own) && !cfg!(feature = "archive");
        let others = [&self.copies, &self.libc_ranges];
        let is_of =
            |ranges: &[Range<usize>]| ranges.iter().any(|range| object.contains(range.start));
        if others.iter().any(|ranges| is_of(ranges.items())) {
            return;
        }
        if let Some(tables) = Tables::of(object) {
            self.redirect_by(object, &tables, is_own);
        }
    }

    /// Writes the entries of an object's GOT.
    fn redirect_by(&mut self, object: &LoadedObject, tables: &Tables, is_own: bool) {
        for relocation in tables.relocations.iter().flat_map(|table| table.iter()) {
            let found = self.entry(object, tables, relocation);
            let new = found.and_then(|(kind, at, redirection)| {
                if is_own {
                    return Some((at, own_target(at, redirection)?));
                }
                let is_libcs = self.is_libcs(object, kind, at, redirection);
                is_libcs.then_some((at, redirection.to.addr()))
            });
            if let Some(new) = new {
                self.entries.push(new);
            }
            if self.entries.is_full() {
                write_entries(object, self.entries.items());
                self.entries.clear();
            }
        }
        write_entries(object, self.entries.items());
        self.entries.clear();
    }

    /// The entry that a relocation writes, if it is one for a redirected function: the relocation's type, the
    /// entry's address, and the function.
    fn entry(
        &self,
        object: &LoadedObject,
        tables: &Tables,
        relocation: &Elf64_Rela,
    ) -> Option<(u32, usize, &Redirection)> {
        let (symbol, kind) = ((relocation.r_info >> 32) as usize, relocation.r_info as u32);
        let kinds = [arch::JUMP_SLOT, arch::GLOB_DAT, arch::ABSOLUTE];
        if symbol == 0 || !kinds.contains(&kind) {
            return None;
        }
        // SAFETY: the object's relocations name symbols of its own table, with names in its string table.
        let (name, defined) = unsafe {
            let symbol = &*tables.symbols.add(symbol);
            (
                CStr::from_ptr(tables.strings.add(symbol.st_name as usize)),
                symbol.st_shndx != 0,
            )
        };
        let by_name = |redirection: &Redirection| redirection.name.cmp(name);
        let found = self.redirections.binary_search_by(by_name).ok()?;
        let at = object.base.wrapping_add(relocation.r_offset as usize);
        let is_plain = kind != arch::ABSOLUTE || relocation.r_addend == 0;
        if defined || !is_plain || at % align_of::<usize>() != 0 || !object.contains(at) {
            return None;
        }
        Some((kind, at, &self.redirections[found]))
    }

    /// Whether an entry is what the dynamic linker makes it: not bound yet (it points into the object
    /// itself), a function of libc, or the first definition that the program has.
    fn is_libcs(
        &self,
        object: &LoadedObject,
        kind: u32,
        at: usize,
        redirection: &Redirection,
    ) -> bool {
        let value = entry_value(at);
        let is_unbound = kind == arch::JUMP_SLOT && object.contains(value);
        is_unbound
            || self
                .libc_ranges
                .items()
                .iter()
                .any(|range| range.contains(&value))
            || redirection.is_first(value)
    }
}

/// Reads an entry of a GOT, which [`Pass::entry`] has found.
fn entry_value(at: usize) -> usize {
    // SAFETY: the entry lies in the object, at an aligned address; other threads write it as a whole.
    unsafe { AtomicUsize::from_ptr(at as *mut usize) }.load(Ordering::Relaxed)
}

/// The address to write to an entry of this library, whose own calls are not redirected: the
/// function's definition in place of the program's PLT entry, which leads to the program's GOT.
fn own_target(at: usize, redirection: &Redirection) -> Option<usize> {
    let [address, definition] =
        [&redirection.address, &redirection.definition].map(|first| first.load(Ordering::Relaxed));
    let is_plt_entry = address != definition && entry_value(at) == address;
    (is_plt_entry && definition != 0).then_some(definition)
}

/// The tables of an object that the dynamic linker uses.
struct Tables {
    symbols: *const Elf64_Sym,
    strings: *const libc::c_char,
    relocations: [&'static [Elf64_Rela]; 2],
}

impl Tables {
    fn of(object: &LoadedObject) -> Option<Tables> {
        let dynamic = object.segments(libc::PT_DYNAMIC).next()?;
        let pairs = dynamic.len() / 16;
        // SAFETY: the segment is an array of pairs of words, in the loaded object.
        let pairs =
            unsafe { core::slice::from_raw_parts(dynamic.start as *const (i64, u64), pairs) };
        let get = |tag: i64| {
            let mut pairs = pairs.iter().take_while(|pair| pair.0 != DT_NULL);
            pairs.find(|pair| pair.0 == tag).map(|pair| pair.1 as usize)
        };
        // The dynamic linker makes these addresses absolute in objects whose tables it may write to.
        let address = |tag| {
            let value = get(tag)?;
            Some(if value < object.base {
                object.base + value
            } else {
                value
            })
        };
        let table = |tag, size_tag| -> &'static [Elf64_Rela] {
            let (Some(at), Some(size)) = (address(tag), get(size_tag)) else {
                return &[];
            };
            if !object.contains(at) || !object.contains(at + size.saturating_sub(1)) {
                return &[];
            }
            // SAFETY: the table lies in the loaded object, with entries of this type on these machines.
            unsafe {
                core::slice::from_raw_parts(at as *const Elf64_Rela, size / size_of::<Elf64_Rela>())
            }
        };
        let (symbols, strings) = (address(DT_SYMTAB)?, address(DT_STRTAB)?);
        (object.contains(symbols) && object.contains(strings)).then(|| Tables {
            symbols: symbols as *const _,
            strings: strings as *const _,
            relocations: [table(DT_JMPREL, DT_PLTRELSZ), table(DT_RELA, DT_RELASZ)],
        })
    }
}

/// The pages that become read-only after relocation (RELRO), as the dynamic linker rounds them.
fn read_only_pages(object: &LoadedObject, page: usize) -> impl Iterator<Item = Range<usize>> {
    let relro = object.segments(libc::PT_GNU_RELRO);
    relro.map(move |range| range.start & !(page - 1)..range.end & !(page - 1))
}

fn is_writable(object: &LoadedObject, at: usize) -> bool {
    object.headers.iter().any(|header| {
        let start = object.base.wrapping_add(header.p_vaddr as usize);
        header.p_type == libc::PT_LOAD
            && header.p_flags & libc::PF_W != 0
            && (start..start + header.p_memsz as usize).contains(&at)
    })
}

fn write_entries(object: &LoadedObject, entries: &[(usize, usize)]) {
    if entries.is_empty() {
        return;
    }
    // SAFETY: sysconf takes no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let used = |range: &Range<usize>| entries.iter().any(|(at, _)| range.contains(at));
    let closed = || read_only_pages(object, page).filter(used);
    let protect = |range: Range<usize>, protection| {
        // SAFETY: these pages are the object's, which stays loaded as `visit` says.
        unsafe { libc::mprotect(range.start as *mut c_void, range.len(), protection) == 0 }
    };
    let open = closed().all(|range| protect(range, libc::PROT_READ | libc::PROT_WRITE));
    for (at, to) in entries
        .iter()
        .filter(|(at, _)| open && is_writable(object, *at))
    {
        // SAFETY: the entry is an aligned word of a page that is writable now.
        unsafe { AtomicUsize::from_ptr(*at as *mut usize) }.store(*to, Ordering::Release);
    }
    closed().for_each(|range| {
        protect(range, libc::PROT_READ);
    });
}

//! The facts that headers declare to a C compiler, one per line.
//!
//! The facts are: the size and alignment of each struct and union; the offset, size and type of each field
//! (for verbs_context the distance from the end, which is the ABI); the value of each enumerator; the type of
//! each function, and whether it is inline; the value of each macro, or its number of parameters, or its
//! expansion. Headers of the same interface have the same facts.

mod macros;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use clang::diagnostic::Severity;
use clang::{Clang, Entity, EntityKind, Index, SizeofError, Type, TypeKind, Unsaved};
use regex_lite::Regex;

/// The facts of some headers.
pub type Facts = BTreeSet<String>;

/// Headers to read.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Include directories.
    pub include: Vec<PathBuf>,
    /// Definitions: `NAME`, or `NAME=VALUE`.
    pub define: Vec<String>,
    /// The directories whose files count; if there are none, those below `include`.
    pub of: Vec<PathBuf>,
    pub headers: Vec<String>,
}

impl Query {
    pub fn new(include: impl Into<PathBuf>, headers: &[&str]) -> Self {
        let headers = headers.iter().map(|header| header.to_string()).collect();
        Self {
            include: vec![include.into()],
            headers,
            ..Self::default()
        }
    }

    pub fn also(mut self, include: impl Into<PathBuf>) -> Self {
        self.include.push(include.into());
        self
    }

    pub fn define(mut self, definition: &str) -> Self {
        self.define.push(definition.into());
        self
    }

    pub fn of(mut self, dir: impl Into<PathBuf>) -> Self {
        self.of.push(dir.into());
        self
    }

    /// Arguments for a compiler.
    pub fn flags(&self) -> Vec<String> {
        let include = self
            .include
            .iter()
            .map(|dir| format!("-I{}", dir.display()));
        let define = self
            .define
            .iter()
            .map(|definition| format!("-D{definition}"));
        ["-std=gnu17".into(), "-w".into()]
            .into_iter()
            .chain(include)
            .chain(define)
            .collect()
    }

    /// A C source that includes the headers.
    pub fn source(&self) -> String {
        self.headers
            .iter()
            .map(|header| format!("#include <{header}>\n"))
            .collect()
    }

    /// The facts; the error has the compiler's messages.
    pub fn facts(&self) -> Result<Facts, String> {
        let clang = Clang::new()?;
        let index = Index::new(&clang, false, false);
        let mut flags = self.flags();
        let gcc = macros::run("gcc", &["-print-file-name=include"], "")?;
        flags.push(format!("-idirafter{}", gcc.trim()));
        let unit = index
            .parser("facts.c")
            .arguments(&flags)
            .unsaved(&[Unsaved::new("facts.c", self.source())])
            .detailed_preprocessing_record(true)
            .parse()
            .map_err(|e| e.to_string())?;
        let errors: Vec<String> = unit
            .get_diagnostics()
            .iter()
            .filter(|d| matches!(d.get_severity(), Severity::Error | Severity::Fatal))
            .map(ToString::to_string)
            .collect();
        if !errors.is_empty() {
            return Err(errors.join("\n"));
        }
        let of = if self.of.is_empty() {
            &self.include
        } else {
            &self.of
        };
        let dirs: Result<Vec<PathBuf>, _> = of.iter().map(fs::canonicalize).collect();
        let mut reader = Reader::new(dirs.map_err(|e| e.to_string())?)?;
        for entity in unit.get_entity().get_children() {
            reader.visit(&entity);
        }
        macros::add(self, &reader.macros, &mut reader.facts)?;
        Ok(reader.facts)
    }
}

/// Names that headers define for internal use.
const OWN: &str = r"(?i)^(_+ibv_\w+|__IBV_\w+|_RDMA_STATIC\w*)$";
/// Names of that form that are part of the interface.
const NOT_OWN: &[&str] = &[
    "___ibv_query_port", "__ibv_reg_mr", "__ibv_reg_mr_iova", "_ibv_query_gid_ex",
    "_ibv_query_gid_table", "_ibv_query_comp_cntr_caps", "__ibv_query_gid_ex", "_ibv_device_ops",
    "__ibv_get_device_list",
];

/// A macro: whether it has parameters, and its tokens without the name.
pub struct Macro {
    pub has_parameters: bool,
    pub tokens: Vec<String>,
}

struct Reader {
    dirs: Vec<PathBuf>,
    own: Regex,
    nameless: Regex,
    facts: Facts,
    macros: BTreeMap<String, Macro>,
}

impl Reader {
    fn new(dirs: Vec<PathBuf>) -> Result<Self, String> {
        let regex = |pattern| Regex::new(pattern).map_err(|e| e.to_string());
        Ok(Self {
            dirs,
            own: regex(OWN)?,
            nameless: regex(r"(struct|union|enum) [\w:]*\((unnamed|anonymous)[^)]*\)")?,
            facts: Facts::new(),
            macros: BTreeMap::new(),
        })
    }

    fn is_own(&self, name: &str) -> bool {
        self.own.is_match(name) && !NOT_OWN.contains(&name)
    }

    fn is_here(&self, entity: &Entity) -> bool {
        let file = entity
            .get_location()
            .and_then(|at| at.get_expansion_location().file);
        let path = file.and_then(|file| fs::canonicalize(file.get_path()).ok());
        path.is_some_and(|path| self.dirs.iter().any(|dir| path.starts_with(dir)))
    }

    /// A type's name without the parts that depend on the location or spelling of its declaration.
    fn type_name(&self, kind: &Type) -> String {
        let text = kind.get_canonical_type().get_display_name();
        self.nameless
            .replace_all(&text, "$1 (unnamed)")
            .replace("_Atomic(int)", "atomic_int")
    }

    fn visit(&mut self, entity: &Entity) {
        if !self.is_here(entity) {
            return;
        }
        let name = entity.get_name().unwrap_or_default();
        let nameless = name.is_empty() || name.contains('(');
        let fact = match entity.get_kind() {
            kind @ (EntityKind::StructDecl | EntityKind::UnionDecl) => {
                if entity.is_definition() && !nameless {
                    let word = if kind == EntityKind::StructDecl {
                        "struct"
                    } else {
                        "union"
                    };
                    self.record_of(entity, word, &name);
                }
                return;
            }
            EntityKind::EnumDecl => {
                if entity.is_definition() {
                    self.enumeration(entity, (!nameless).then_some(name.as_str()));
                }
                return;
            }
            EntityKind::MacroDefinition => {
                if !self.is_own(&name) {
                    self.keep_macro(entity, name);
                }
                return;
            }
            EntityKind::FunctionDecl if !self.is_own(&name) => {
                let inline = if entity.is_definition() {
                    " inline"
                } else {
                    ""
                };
                entity
                    .get_type()
                    .map(|t| format!("function{inline} {name} {}", self.type_name(&t)))
            }
            EntityKind::TypedefDecl => entity
                .get_typedef_underlying_type()
                .map(|t| format!("typedef {name} {}", self.type_name(&t))),
            EntityKind::VarDecl => entity
                .get_type()
                .map(|t| format!("variable {name} {}", self.type_name(&t))),
            _ => return,
        };
        self.facts.extend(fact);
    }

    fn keep_macro(&mut self, entity: &Entity, name: String) {
        let tokens = entity
            .get_range()
            .map(|range| range.tokenize())
            .unwrap_or_default();
        let tokens = tokens
            .iter()
            .skip(1)
            .map(clang::token::Token::get_spelling)
            .collect();
        self.macros.insert(
            name,
            Macro {
                has_parameters: entity.is_function_like_macro(),
                tokens,
            },
        );
    }

    fn enumeration(&mut self, entity: &Entity, name: Option<&str>) {
        if let (Some(name), Some(kind)) = (name, entity.get_type()) {
            self.facts
                .insert(format!("enum {name} size {}", size_of(&kind)));
        }
        let of = name.map(|name| format!(" of {name}")).unwrap_or_default();
        let unsigned = entity.get_enum_underlying_type().is_some_and(|t| {
            matches!(
                t.get_canonical_type().get_kind(),
                TypeKind::UInt | TypeKind::ULong
            )
        });
        for value in entity.get_children() {
            let Some((signed, bits)) = value.get_enum_constant_value() else {
                continue;
            };
            let number = if unsigned {
                bits.to_string()
            } else {
                signed.to_string()
            };
            let name = value.get_name().unwrap_or_default();
            self.facts
                .insert(format!("enumerator {name} = {number}{of}"));
        }
    }

    fn record_of(&mut self, entity: &Entity, word: &str, name: &str) {
        let Some(kind) = entity.get_type() else {
            return;
        };
        let align = kind.get_alignof().unwrap_or(0);
        self.facts.insert(format!(
            "{word} {name} size {} align {align}",
            size_of(&kind)
        ));
        self.fields(name, &kind, size_of(&kind), 0, "");
    }

    /// Adds the fields of a struct, including those of unnamed structs in it. `base` is in bits.
    fn fields(&mut self, name: &str, kind: &Type, total: i64, base: i64, prefix: &str) {
        for field in kind.get_fields().unwrap_or_default() {
            let offset = base + field.get_offset_of_field().map_or(-1, |bits| bits as i64);
            // libclang 19 makes up a name of a nameless field, with its place.
            let own = field.get_name().filter(|name| !name.contains('('));
            let own = own.unwrap_or_default();
            let path = format!("{prefix}{own}");
            let Some(field_type) = field.get_type() else {
                continue;
            };
            if field.is_bit_field() {
                let width = field.get_bit_field_width().unwrap_or(0);
                self.facts
                    .insert(format!("field {name}.{path} bit {offset} width {width}"));
                continue;
            }
            if !own.is_empty() {
                let place = if name == "verbs_context" {
                    format!("from the end {}", total - offset / 8)
                } else {
                    format!("offset {}", offset / 8)
                };
                let (size, of) = (size_of(&field_type), self.type_name(&field_type));
                self.facts
                    .insert(format!("field {name}.{path} {place} size {size} type {of}"));
            }
            let inner = element(field_type).get_canonical_type();
            if is_nameless_record(&inner) {
                let dot = if own.is_empty() {
                    prefix.to_string()
                } else {
                    format!("{path}.")
                };
                self.fields(name, &inner, total, offset, &dot);
            }
        }
    }
}

/// The type of an array's elements; another type is left alone.
fn element(mut kind: Type) -> Type {
    while kind.get_kind() == TypeKind::ConstantArray {
        let Some(of) = kind.get_element_type() else {
            break;
        };
        kind = of;
    }
    kind
}

fn is_nameless_record(kind: &Type) -> bool {
    let declared = kind
        .get_declaration()
        .map(|declaration| declaration.get_kind());
    let spelling = kind.get_canonical_type().get_display_name();
    matches!(
        declared,
        Some(EntityKind::StructDecl | EntityKind::UnionDecl)
    ) && (spelling.contains("(unnamed") || spelling.contains("(anonymous"))
}

/// The size in bytes; libclang's negative code for a type without one.
fn size_of(kind: &Type) -> i64 {
    match kind.get_sizeof() {
        Ok(size) => size as i64,
        Err(SizeofError::Incomplete) => -2,
        Err(SizeofError::Dependent) => -3,
        Err(_) => -4,
    }
}

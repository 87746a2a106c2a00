/*
 * An auditor for the dynamic linker (LD_AUDIT, rtld-audit(7)) that records which exported functions of our
 * library, and which versions of them, a process calls: through the PLT, through a provider's table of
 * operations, or through dlsym.
 *
 * Each exported function of our library is a jump to its implementation (src/export). As soon as the library
 * is mapped, each of these jumps is redirected to a stub that sets a byte in the file
 * $MATRIX_DIR/PROGRAM.PID. The file has a line "NAME@VERSION 0" for each function, where 0 becomes 1 at the
 * first call. Libraries without such jumps, such as the C library, are left alone. x86-64 only.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE 80 /* bytes per line of the file, including the newline */
#define STUB 16 /* bytes per stub */
#define PAGE 4096ul
#define ROUND(n) (((n) + PAGE - 1) & ~(PAGE - 1))

struct object {
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint16_t *versions;
	const ElfW(Verdef) * definitions;
	const uint32_t *gnu_hash;
	uint32_t count;
};

unsigned int la_version(unsigned int version)
{
	return version < LAV_CURRENT ? version : LAV_CURRENT;
}

static bool read_dynamic(const struct link_map *map, struct object *object)
{
	const ElfW(Dyn) * entry;
	uint32_t i;

	memset(object, 0, sizeof(*object));
	for (entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		uintptr_t address = entry->d_un.d_ptr;

		/* The dynamic linker may or may not have relocated it yet. */
		if (address < map->l_addr)
			address += map->l_addr;
		switch (entry->d_tag) {
		case DT_SYMTAB:
			object->symbols = (void *)address;
			break;
		case DT_STRTAB:
			object->strings = (void *)address;
			break;
		case DT_VERSYM:
			object->versions = (void *)address;
			break;
		case DT_VERDEF:
			object->definitions = (void *)address;
			break;
		case DT_GNU_HASH:
			object->gnu_hash = (void *)address;
			break;
		case DT_HASH:
			object->count = ((const uint32_t *)address)[1];
			break;
		}
	}
	if (!object->count && object->gnu_hash) {
		/* The last symbol is at the end of the chain of the last bucket. */
		const uint32_t *hash = object->gnu_hash;
		const uint32_t *buckets = hash + 4 + hash[2] * (__ELF_NATIVE_CLASS / 32);
		const uint32_t *chain = buckets + hash[0];
		uint32_t last = 0;

		for (i = 0; i < hash[0]; i++)
			last = buckets[i] > last ? buckets[i] : last;
		if (last >= hash[1])
			while (!(chain[last - hash[1]] & 1))
				last++;
		object->count = last + 1;
	}
	return object->symbols && object->strings && object->versions && object->definitions && object->count;
}

static const char *version_of(const struct object *object, uint32_t symbol)
{
	const ElfW(Verdef) *definition = object->definitions;

	for (;;) {
		if (definition->vd_ndx == (object->versions[symbol] & 0x7fff)) {
			const ElfW(Verdaux) *name = (void *)((uintptr_t)definition + definition->vd_aux);

			return object->strings + name->vda_name;
		}
		if (!definition->vd_next)
			return NULL;
		definition = (void *)((uintptr_t)definition + definition->vd_next);
	}
}

/* The jump of an exported function of our library; NULL for anything else. */
static uint8_t *jump_of(const struct link_map *map, const ElfW(Sym) * symbol)
{
	uint8_t *entry = (uint8_t *)(map->l_addr + symbol->st_value);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS ||
	    ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
		return NULL;
	return *entry == 0xe9 ? entry : NULL;
}

/* Reserves memory within the range of a relative jump from the library. */
static uint8_t *reserve_near(uintptr_t address, size_t len)
{
	uintptr_t at = (address & ~(PAGE - 1)) - (1 << 20);
	int tries;

	for (tries = 0; tries < 1500; tries++, at -= 1 << 20) {
		void *got = mmap((void *)at, len, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (got == (void *)at)
			return got;
		if (got != MAP_FAILED)
			munmap(got, len);
	}
	return NULL;
}

static void put_relative(uint8_t *at, const uint8_t *target)
{
	int32_t distance = (int32_t)(target - (at + 4));

	memcpy(at, &distance, 4);
}

static const uint8_t *follow(const uint8_t *at)
{
	int32_t distance;

	memcpy(&distance, at, 4);
	return at + 4 + distance;
}

static int open_file(const char *dir)
{
	char program[256] = "", path[512];
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
	const char *name = len > 0 ? strrchr(program, '/') : NULL;

	snprintf(path, sizeof(path), "%s/%s.%d", dir, name ? name + 1 : "program", (int)getpid());
	return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

static void record(const struct link_map *map)
{
	const char *dir = getenv("MATRIX_DIR");
	size_t n = 0, stubs_len, file_len;
	struct object object;
	uint8_t *stubs, *lines;
	uint32_t i;
	int fd;

	if (!dir || !read_dynamic(map, &object))
		return;
	for (i = 0; i < object.count; i++)
		n += jump_of(map, &object.symbols[i]) != NULL;
	if (!n)
		return;
	stubs_len = ROUND(n * STUB);
	file_len = n * LINE;
	stubs = reserve_near(map->l_addr, stubs_len + ROUND(file_len));
	fd = open_file(dir);
	if (!stubs || fd < 0 || ftruncate(fd, (off_t)file_len)) {
		fprintf(stderr, "audit: cannot record in %s: %s\n", dir, strerror(errno));
		_exit(125);
	}
	lines = stubs + stubs_len;
	if (mmap(stubs, stubs_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
		    stubs ||
	    mmap(lines, file_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != lines)
		_exit(125);
	close(fd);

	n = 0;
	for (i = 0; i < object.count; i++) {
		uint8_t *entry = jump_of(map, &object.symbols[i]), *page;
		uint8_t *stub = stubs + n * STUB, *line = lines + n * LINE;
		const char *version = entry ? version_of(&object, i) : NULL;
		char text[LINE + 1];

		if (!entry)
			continue;
		snprintf(text, sizeof(text), "%s@%s", object.strings + object.symbols[i].st_name,
			 version ? version : "?");
		memset(line, ' ', LINE);
		memcpy(line, text, strlen(text));
		line[LINE - 2] = '0';
		line[LINE - 1] = '\n';

		stub[0] = 0xc6; /* movb $'1', line(%rip) */
		stub[1] = 0x05;
		/* The distance is relative to the end of the instruction, one byte further on. */
		put_relative(stub + 2, line + LINE - 2 - 1);
		stub[6] = '1';
		stub[7] = 0xe9; /* jmp */
		put_relative(stub + 8, follow(entry + 1));

		page = (uint8_t *)((uintptr_t)entry & ~(PAGE - 1));
		if (mprotect(page, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) &&
		    mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
			_exit(125);
		put_relative(entry + 1, stub);
		mprotect(page, 2 * PAGE, PROT_READ | PROT_EXEC);
		n++;
	}
	mprotect(stubs, stubs_len, PROT_READ | PROT_EXEC);
}

unsigned int la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
	const char *name = strrchr(map->l_name, '/');

	(void)namespace;
	(void)cookie;
	if (!strncmp(name ? name + 1 : map->l_name, "libibverbs.so", 13))
		record(map);
	return 0;
}

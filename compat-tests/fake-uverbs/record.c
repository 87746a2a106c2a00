/*
 * The log of what a library passes to the kernel (FAKE_LOG=FILE), as text that can be compared between two
 * libraries: one line per call, then indented lines for its parts. User space addresses are written as `ptr`,
 * since they differ from run to run; everything else is exact.
 */
#define _GNU_SOURCE
#include "fake.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#define PER_LINE 8

static FILE *log_file;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_log(void)
{
	const char *path = getenv("FAKE_LOG");
	int fd, high;

	if (!path || !*path)
		return;
	fd = openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	/* A high number, so that the program's descriptors keep the numbers they have without the shim. */
	high = fcntl(fd, F_DUPFD_CLOEXEC, 600);
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	log_file = fdopen(fd, "a");
	if (log_file)
		setlinebuf(log_file);
}

bool recording(void)
{
	pthread_once(&once, open_log);
	return log_file != NULL;
}

void record_line(const char *fmt, ...)
{
	va_list args;

	if (!recording())
		return;
	va_start(args, fmt);
	vfprintf(log_file, fmt, args);
	va_end(args);
}

/* For test programs (dlsym): writes a line to the log, which names the call that causes what follows. */
__attribute__((visibility("default"))) void fake_mark(const char *text);
void fake_mark(const char *text)
{
	record_line("== %s\n", text);
}

/* Where 64-bit processes have their code, heap, stack and mappings. */
static bool looks_like_address(uint64_t value)
{
	return value >= 0x500000000000 && value < 0x800000000000;
}

/* Words of 4 bytes; an address replaces two of them. */
static void dump(const uint8_t *bytes, size_t len)
{
	size_t at = 0, column = 0;

	while (at < len) {
		uint64_t wide = 0;
		uint32_t word = 0;
		size_t step = len - at < 4 ? len - at : 4;

		if (column++ % PER_LINE == 0)
			record_line("%s   %04zx:", at ? "\n" : "", at);
		if (at % 8 == 0 && len - at >= 8) {
			memcpy(&wide, bytes + at, 8);
			if (looks_like_address(wide)) {
				record_line(" ptr");
				at += 8;
				continue;
			}
		}
		memcpy(&word, bytes + at, step);
		record_line(" %0*x", (int)step * 2, word);
		at += step;
	}
	if (len)
		record_line("\n");
}

void record_write(int fd, const void *buf, size_t len)
{
	const uint8_t *bytes = buf;
	uint32_t command = 0;
	uint16_t words[2] = { 0, 0 };
	size_t skip = 8;

	if (!recording())
		return;
	if (len >= 8) {
		memcpy(&command, bytes, 4);
		memcpy(words, bytes + 4, 4);
	} else {
		skip = 0;
	}
	record_line("write uverbs%d %s command=0x%x in_words=%u out_words=%u bytes=%zu\n", fake_uverbs_of(fd),
		    write_name(command & 0xff, command & 0x80000000u), command, words[0], words[1], len);
	dump(bytes + skip, len - skip);
}

static void record_attr(const struct ib_uverbs_ioctl_hdr *hdr, const struct ib_uverbs_attr *attr)
{
	enum attr_kind kind = ioctl_attr_kind(hdr->object_id, hdr->method_id, attr->attr_id);
	static const char *const kinds[] = { [A_UNKNOWN] = "?",    [A_IN] = "in",          [A_OUT] = "out",
					     [A_IDR] = "handle",   [A_NEW] = "new-handle", [A_FD] = "fd",
					     [A_NEWFD] = "new-fd", [A_IDRS] = "handles",   [A_ENUM] = "in" };

	record_line("  attr 0x%04x %s len=%u flags=0x%x sel=0x%x", attr->attr_id, kinds[kind], attr->len,
		    attr->flags, attr->attr_data.reserved);
	if (kind == A_OUT) {
		record_line(" data=%s\n", attr->data ? "ptr" : "null");
	} else if ((kind == A_IN || kind == A_ENUM || kind == A_IDRS) && attr->len > sizeof(attr->data)) {
		record_line("\n");
		dump((const uint8_t *)(uintptr_t)attr->data, attr->len);
	} else if (looks_like_address(attr->data)) {
		record_line(" data=ptr\n");
	} else {
		record_line(" data=0x%llx\n", (unsigned long long)attr->data);
	}
}

void record_ioctl(int fd, unsigned long request, const void *header)
{
	const struct ib_uverbs_ioctl_hdr *hdr = header;

	if (!recording())
		return;
	if (request != RDMA_VERBS_IOCTL) {
		record_line("ioctl uverbs%d request=0x%lx\n", fake_uverbs_of(fd), request);
		return;
	}
	record_line("ioctl uverbs%d %s(%u).%s(%u) length=%u attrs=%u driver=%u reserved=%llx,%x\n",
		    fake_uverbs_of(fd), ioctl_object_name(hdr->object_id), hdr->object_id,
		    ioctl_method_name(hdr->object_id, hdr->method_id), hdr->method_id, hdr->length,
		    hdr->num_attrs, hdr->driver_id, (unsigned long long)hdr->reserved1, hdr->reserved2);
	for (unsigned i = 0; i < hdr->num_attrs; i++)
		record_attr(hdr, &hdr->attrs[i]);
}

void record_result(int error)
{
	if (error)
		record_line("  -> errno %d\n", error);
}

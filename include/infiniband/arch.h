/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Byte order of 64-bit numbers, for programs of old. New ones use htobe64 and be64toh of endian.h.
 */
#ifndef INFINIBAND_ARCH_H
#define INFINIBAND_ARCH_H

#include <endian.h>
#include <stdint.h>

#warning "infiniband/arch.h is obsolete: use htobe64 and be64toh of endian.h"

/* The system's, or the program's own, come first. */
#ifndef ntohll
#undef htonll

/* From the host's order to the network's. endian.h has htobe64 for some standards only. */
static inline __attribute__((__deprecated__)) uint64_t htonll(uint64_t x)
{
	return __BYTE_ORDER == __LITTLE_ENDIAN ? __builtin_bswap64(x) : x;
}

/* From the network's order to the host's. */
static inline __attribute__((__deprecated__)) uint64_t ntohll(uint64_t x)
{
	return __BYTE_ORDER == __LITTLE_ENDIAN ? __builtin_bswap64(x) : x;
}

/* So that others see that they are there. */
#define htonll htonll
#define ntohll ntohll
#endif

#endif

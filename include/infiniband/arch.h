/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Byte order conversion of 64-bit integers, for old programs. New programs should use htobe64 and be64toh of
 * endian.h.
 */
#ifndef INFINIBAND_ARCH_H
#define INFINIBAND_ARCH_H

#include <endian.h>
#include <stdint.h>

#warning "infiniband/arch.h is obsolete: use htobe64 and be64toh of endian.h"

/* Definitions of the system or of the program take precedence. */
#ifndef ntohll
#undef htonll

/*
 * Host to network byte order. htobe64 is not used because endian.h does not define it in strict standard
 * modes.
 */
static inline __attribute__((__deprecated__)) uint64_t htonll(uint64_t x)
{
	return __BYTE_ORDER == __LITTLE_ENDIAN ? __builtin_bswap64(x) : x;
}

/* Network to host byte order. */
static inline __attribute__((__deprecated__)) uint64_t ntohll(uint64_t x)
{
	return __BYTE_ORDER == __LITTLE_ENDIAN ? __builtin_bswap64(x) : x;
}

/* Let other headers detect the definitions. */
#define htonll htonll
#define ntohll ntohll
#endif

#endif

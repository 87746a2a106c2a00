/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Commands that fall back from the ioctl interface to the write interface, as far as providers have a say in
 * it. The rest is the library's own.
 */
#ifndef __INFINIBAND_VERBS_WRITE_H
#define __INFINIBAND_VERBS_WRITE_H

#include <errno.h>
#include <stdbool.h>

#include <infiniband/cmd_ioctl.h>

/* The plain write command cannot say what this one says; neither write command can. */
static inline void fallback_require_ex(struct ibv_command_buffer *cmdb)
{
	cmdb->fallback_require_ex = 1;
}

static inline void fallback_require_ioctl(struct ibv_command_buffer *cmdb)
{
	cmdb->fallback_ioctl_only = 1;
}

/* Set once the device is gone: destroying then succeeds where RDMAV_ALLOW_DISASSOC_DESTROY asks for it. */
extern bool verbs_allow_disassociate_destroy;

/*
 * Whether to leave it at what the kernel answered, for it destroyed nothing. *ret becomes 0 where that is to
 * count as success.
 */
static inline bool verbs_is_destroy_err(int *ret)
{
	bool failed = *ret != 0;

	if (*ret == EIO && verbs_allow_disassociate_destroy)
		*ret = 0;
	return failed;
}

#endif

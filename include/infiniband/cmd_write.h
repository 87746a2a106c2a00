/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For commands that fall back from the ioctl interface to the write interface: the part that providers use.
 */
#ifndef __INFINIBAND_VERBS_WRITE_H
#define __INFINIBAND_VERBS_WRITE_H

#include <errno.h>
#include <stdbool.h>

#include <infiniband/cmd_ioctl.h>

/* Declare that a command cannot be expressed by the plain write command; by either write command. */
static inline void fallback_require_ex(struct ibv_command_buffer *cmdb)
{
	cmdb->fallback_require_ex = 1;
}

static inline void fallback_require_ioctl(struct ibv_command_buffer *cmdb)
{
	cmdb->fallback_ioctl_only = 1;
}

/* Set from RDMAV_ALLOW_DISASSOC_DESTROY: destroying an object of a device that is gone (EIO) succeeds. */
extern bool verbs_allow_disassociate_destroy;

/*
 * Whether destroying an object failed in the kernel, so that the provider must stop there. Sets *ret to 0 if
 * the failure counts as success (verbs_allow_disassociate_destroy).
 */
static inline bool verbs_is_destroy_err(int *ret)
{
	bool failed = *ret != 0;

	if (*ret == EIO && verbs_allow_disassociate_destroy)
		*ret = 0;
	return failed;
}

#endif

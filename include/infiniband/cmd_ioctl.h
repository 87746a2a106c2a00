/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Builds commands of the kernel's uverbs ioctl interface. Providers use it for commands of their own, and for
 * attributes that ibv_cmd_* functions add to the library's commands. Part of driver.h.
 *
 *	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DM, METHOD, 2);
 *	fill_attr_in_obj(cmd, ATTR_HANDLE, handle);
 *	fill_attr_out_ptr(cmd, ATTR_RESPONSE, &response);
 *	ret = execute_ioctl(context, cmd);
 *
 * Data that attributes point to must remain valid until the command has been executed.
 */
#ifndef __INFINIBAND_VERBS_IOCTL_H
#define __INFINIBAND_VERBS_IOCTL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdma/rdma_user_ioctl_cmds.h>

#include <infiniband/verbs.h>

/*
 * A command. Its attributes follow in memory: the struct is the first element of an array that has room for
 * them.
 */
__extension__ struct ibv_command_buffer {
	struct ibv_command_buffer *next; /* attributes to add to the same command */
	struct ib_uverbs_attr *next_attr;
	struct ib_uverbs_attr *last_attr; /* end of the attribute array */
	uint8_t uhw_in_idx;  /* index of the attribute with the provider's request, or _UHW_NO_INDEX */
	uint8_t uhw_out_idx; /* index of the attribute with its response */
	uint8_t uhw_in_headroom_dwords; /* free space before the data, in units of 4 bytes, for the write
					   interface */
	uint8_t uhw_out_headroom_dwords;
	uint8_t buffer_error : 1;        /* an attribute was too long: the command fails with EINVAL */
	uint8_t fallback_require_ex : 1; /* no fallback to the plain write command */
	uint8_t fallback_ioctl_only : 1; /* no fallback to either write command */
	struct ib_uverbs_ioctl_hdr hdr;
};

enum {
	_UHW_NO_INDEX = 0xFF
};

/* Array length for a command with _num_attrs attributes. */
#define _IOCTL_NUM_CMDB(_num_attrs) \
	(1 + (sizeof(struct ib_uverbs_attr) * (_num_attrs) + sizeof(struct ibv_command_buffer) - 1) / \
		     sizeof(struct ibv_command_buffer))

/* num_attrs plus the number of attributes in the linked buffers. */
unsigned int __ioctl_final_num_attrs(unsigned int num_attrs, struct ibv_command_buffer *link);
#define _ioctl_final_num_attrs(_num_attrs, _link) \
	((__builtin_constant_p(!(_link)) && !(_link)) ? (_num_attrs) \
						      : __ioctl_final_num_attrs(_num_attrs, _link))

/* Initializes a command without attributes. */
static inline int _ioctl_init_cmdb(struct ibv_command_buffer *cmd, uint16_t object_id, uint16_t method_id,
				   size_t num_attrs, struct ibv_command_buffer *link)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->next = link;
	cmd->next_attr = cmd->hdr.attrs;
	cmd->last_attr = cmd->hdr.attrs + num_attrs;
	cmd->uhw_in_idx = _UHW_NO_INDEX;
	cmd->uhw_out_idx = _UHW_NO_INDEX;
	cmd->hdr.object_id = object_id;
	cmd->hdr.method_id = method_id;
	return 0;
}

/*
 * Declares a command _name on the stack, with room for _num_attrs attributes and those of the linked buffers.
 */
#define DECLARE_COMMAND_BUFFER_LINK(_name, _object_id, _method_id, _num_attrs, _link) \
	const unsigned int __##_name##total = _ioctl_final_num_attrs(_num_attrs, _link); \
	__extension__ struct ibv_command_buffer _name[_IOCTL_NUM_CMDB(__##_name##total)]; \
	int __attribute__((__unused__)) \
	__##_name##dummy = _ioctl_init_cmdb(_name, _object_id, _method_id, __##_name##total, _link)
#define DECLARE_COMMAND_BUFFER(_name, _object_id, _method_id, _num_attrs) \
	DECLARE_COMMAND_BUFFER_LINK(_name, _object_id, _method_id, _num_attrs, NULL)

/* Executes a command. Fails with ENOTTY if the kernel has no such method. */
int execute_ioctl(struct ibv_context *context, struct ibv_command_buffer *cmd);

/*
 * Convert a pointer to the kernel's 64-bit form; clear the unused half of a 32-bit pointer in an
 * RDMA_UAPI_PTR.
 */
static inline uint64_t ioctl_ptr_to_u64(const void *ptr)
{
	return (uintptr_t)ptr;
}
static inline void _scrub_ptr_attr(void **ptr)
{
	uint64_t whole = ioctl_ptr_to_u64(*ptr);

	if (sizeof(*ptr) < sizeof(whole))
		memcpy((char *)ptr - (__BYTE_ORDER == __BIG_ENDIAN ? 4 : 0), &whole, sizeof(whole));
}
#define scrub_ptr_attr(ptr) _scrub_ptr_attr((void **)(&ptr))

/* Adds an attribute; there must be room for it. */
static inline struct ib_uverbs_attr *_ioctl_next_attr(struct ibv_command_buffer *cmd, uint16_t attr_id)
{
	struct ib_uverbs_attr *attr = cmd->next_attr;

	assert(attr < cmd->last_attr);
	memset(attr, 0, sizeof(*attr));
	attr->attr_id = attr_id;
	attr->flags = UVERBS_ATTR_F_MANDATORY;
	cmd->next_attr = attr + 1;
	return attr;
}

/* Makes an attribute optional: a kernel that does not know it ignores it. attr may be NULL. */
static inline struct ib_uverbs_attr *attr_optional(struct ib_uverbs_attr *attr)
{
	if (attr)
		attr->flags &= (uint16_t)~UVERBS_ATTR_F_MANDATORY;
	return attr;
}

/* Object handles: input, output, and reading the output. */
static inline struct ib_uverbs_attr *fill_attr_in_obj(struct ibv_command_buffer *cmd, uint16_t attr_id,
						      uint32_t idr)
{
	struct ib_uverbs_attr *attr = _ioctl_next_attr(cmd, attr_id);

	attr->data = idr;
	return attr;
}

static inline struct ib_uverbs_attr *fill_attr_out_obj(struct ibv_command_buffer *cmd, uint16_t attr_id)
{
	return fill_attr_in_obj(cmd, attr_id, 0);
}

static inline uint32_t read_attr_obj(uint16_t attr_id, struct ib_uverbs_attr *attr)
{
	assert(attr->attr_id == attr_id);
	(void)attr_id;
	return (uint32_t)attr->data;
}

/* File descriptors: input (for fd -1 adds nothing and returns NULL), output, and reading the output. */
static inline struct ib_uverbs_attr *fill_attr_in_fd(struct ibv_command_buffer *cmd, uint16_t attr_id, int fd)
{
	struct ib_uverbs_attr *attr = NULL;

	if (fd != -1) {
		attr = _ioctl_next_attr(cmd, attr_id);
		attr->data = (uint64_t)fd;
	}
	return attr;
}

static inline struct ib_uverbs_attr *fill_attr_out_fd(struct ibv_command_buffer *cmd, uint16_t attr_id,
						      int fd)
{
	(void)fd;
	return _ioctl_next_attr(cmd, attr_id);
}

static inline int read_attr_fd(uint16_t attr_id, struct ib_uverbs_attr *attr)
{
	assert(attr->attr_id == attr_id);
	(void)attr_id;
	return (int)attr->data;
}

/* Input data; up to 8 bytes are copied into the attribute. */
static inline struct ib_uverbs_attr *fill_attr_in(struct ibv_command_buffer *cmd, uint16_t attr_id,
						  const void *data, size_t len)
{
	struct ib_uverbs_attr *attr = _ioctl_next_attr(cmd, attr_id);

	if (len > UINT16_MAX)
		cmd->buffer_error = 1;
	attr->len = (uint16_t)len;
	if (len > sizeof(uint64_t))
		attr->data = ioctl_ptr_to_u64(data);
	else
		memcpy(&attr->data, data, len);
	return attr;
}
#define fill_attr_in_ptr(cmd, attr_id, ptr) fill_attr_in(cmd, attr_id, ptr, sizeof(*ptr))

/* Input integers. */
static inline struct ib_uverbs_attr *fill_attr_in_uint64(struct ibv_command_buffer *cmd, uint16_t attr_id,
							 uint64_t data)
{
	return fill_attr_in(cmd, attr_id, &data, sizeof(data));
}
#define fill_attr_const_in(cmd, attr_id, _data) fill_attr_in_uint64(cmd, attr_id, _data)

static inline struct ib_uverbs_attr *fill_attr_in_uint32(struct ibv_command_buffer *cmd, uint16_t attr_id,
							 uint32_t data)
{
	return fill_attr_in(cmd, attr_id, &data, sizeof(data));
}

/* Input of an enum attribute: the number of the alternative, and its data. */
static inline struct ib_uverbs_attr *fill_attr_in_enum(struct ibv_command_buffer *cmd, uint16_t attr_id,
						       uint8_t elem_id, const void *data, size_t len)
{
	struct ib_uverbs_attr *attr = fill_attr_in(cmd, attr_id, data, len);

	attr->attr_data.enum_data.elem_id = elem_id;
	return attr;
}

/* Output buffer. */
static inline struct ib_uverbs_attr *fill_attr_out(struct ibv_command_buffer *cmd, uint16_t attr_id,
						   void *data, size_t len)
{
	struct ib_uverbs_attr *attr = _ioctl_next_attr(cmd, attr_id);

	if (len > UINT16_MAX)
		cmd->buffer_error = 1;
	attr->len = (uint16_t)len;
	attr->data = ioctl_ptr_to_u64(data);
	return attr;
}
#define fill_attr_out_ptr(cmd, attr_id, ptr) fill_attr_out(cmd, attr_id, ptr, sizeof(*(ptr)))

/* Size of an array in bytes; SIZE_MAX on overflow. */
static inline size_t _array_len(size_t size, size_t nelems)
{
	return size && nelems >= SIZE_MAX / size ? SIZE_MAX : size * nelems;
}

/* Arrays. */
#define fill_attr_in_ptr_array(cmd, attr_id, ptr, nelems) \
	fill_attr_in(cmd, attr_id, ptr, _array_len(sizeof(*ptr), nelems))
#define fill_attr_out_ptr_array(cmd, attr_id, ptr, nelems) \
	fill_attr_out(cmd, attr_id, ptr, _array_len(sizeof(*ptr), nelems))

/* Input array of object handles. */
static inline struct ib_uverbs_attr *fill_attr_in_objs_arr(struct ibv_command_buffer *cmd, uint16_t attr_id,
							   const uint32_t *idrs_arr, size_t nelems)
{
	return fill_attr_in_ptr_array(cmd, attr_id, idrs_arr, nelems);
}

#endif

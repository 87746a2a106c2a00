/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: a list of the objects about which the old interface knows more than today's.
 *
 * The list is one per process: its definition is weak, so that the linker keeps one of those in the files of
 * a program. Shared libraries use the list of the program, or of the first library that has one. A library
 * loaded with RTLD_LOCAL into a program without a list has its own; objects must then not cross its border.
 */
#ifndef INFINIBAND_OFED_OBJECTS_H
#define INFINIBAND_OFED_OBJECTS_H

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_ofed_kind {
	IBV_OFED_XRC_RCV_QP,   /* object: struct ibv_qp, extra: struct ibv_xrcd */
	IBV_OFED_TIMESTAMP_CQ, /* object: struct ibv_cq of ibv_create_cq_ex; length: its wc_flags */
	IBV_OFED_ALLOCATED_MR, /* object: struct ibv_mr, extra and length: its memory, from mmap */
	IBV_OFED_KINDS
};

struct ibv_ofed_object {
	struct ibv_ofed_object *next;
	enum ibv_ofed_kind kind;
	void *object;
	void *extra;
	size_t length;
};

/* The mutex guards the list. counts may be read without it: an object is counted before a program gets it. */
struct ibv_ofed_list {
	pthread_mutex_t mutex;
	struct ibv_ofed_object *first;
	unsigned int counts[IBV_OFED_KINDS];
};

__attribute__((weak, visibility("default"))) struct ibv_ofed_list ibv_ofed_list = { PTHREAD_MUTEX_INITIALIZER,
										    NULL,
										    { 0, 0, 0 } };

/* Adds an object. Returns 0, or ENOMEM. */
static inline int ibv_ofed_add(enum ibv_ofed_kind kind, void *object, void *extra, size_t length)
{
	struct ibv_ofed_object *entry = (struct ibv_ofed_object *)malloc(sizeof(*entry));

	if (!entry)
		return ENOMEM;
	entry->kind = kind;
	entry->object = object;
	entry->extra = extra;
	entry->length = length;
	pthread_mutex_lock(&ibv_ofed_list.mutex);
	entry->next = ibv_ofed_list.first;
	ibv_ofed_list.first = entry;
	__atomic_fetch_add(&ibv_ofed_list.counts[kind], 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&ibv_ofed_list.mutex);
	return 0;
}

/* Copies the entry of an object into *found, and with `take` removes it. Returns 0 if there is none. */
static inline int ibv_ofed_find(enum ibv_ofed_kind kind, const void *object, struct ibv_ofed_object *found,
				int take)
{
	struct ibv_ofed_object **link, *entry;

	if (!__atomic_load_n(&ibv_ofed_list.counts[kind], __ATOMIC_RELAXED))
		return 0;
	pthread_mutex_lock(&ibv_ofed_list.mutex);
	for (link = &ibv_ofed_list.first; (entry = *link) != NULL; link = &entry->next)
		if (entry->kind == kind && entry->object == object)
			break;
	if (entry) {
		*found = *entry;
		if (take) {
			*link = entry->next;
			__atomic_fetch_sub(&ibv_ofed_list.counts[kind], 1, __ATOMIC_RELAXED);
		}
	}
	pthread_mutex_unlock(&ibv_ofed_list.mutex);
	if (entry && take)
		free(entry);
	return entry != NULL;
}

/* The result of a function for a feature without a successor in verbs: NULL with errno. */
static inline void *ibv_ofed_null(int error)
{
	errno = error;
	return NULL;
}

#define IBV_OFED_NO_SUCCESSOR(text) __attribute__((deprecated("verbs have no successor: " text)))

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: XRC as in OFED 1.3 to 1.5.
 *
 * A receive QP (the XRC target) belonged to the kernel. Programs knew it by its number, and it existed as
 * long as a process was registered with it. Today it is a QP of type IBV_QPT_XRC_RECV, which each process
 * opens with ibv_open_qp and closes with ibv_destroy_qp; the last one destroys it. A process is registered
 * here while it has the QP open. Registering twice counts once, as in OFED. Processes share a domain through
 * a file, and hence a receive QP, only on devices where ibv_open_qp can: not on uroce.
 *
 * A QP of type IBV_QPT_XRC, made with ibv_create_qp, is one of type IBV_QPT_XRC_SEND. It only sends; in OFED
 * it could also receive for its domain. A program that connects two such QPs to each other must create a
 * receive QP at each end.
 */
#ifndef INFINIBAND_OFED_XRC_H
#define INFINIBAND_OFED_XRC_H

#ifdef __cplusplus
extern "C" {
#endif

#define IBV_QPT_XRC IBV_QPT_XRC_SEND
#define IBV_QPT_RAW_ETH IBV_QPT_RAW_PACKET
#define IBV_PORT_VENDOR_CLASS IBV_PORT_VENDOR_CLASS_SUP

/* An XRC domain. A macro, so that it is the same type as in today's verbs. */
#define ibv_xrc_domain ibv_xrcd

/*
 * Set in event_type of an event of an XRC receive QP; element.xrc_qp_num is then valid. ibv_get_async_event
 * has already acknowledged such an event, and ibv_ack_async_event does nothing with it.
 */
#define IBV_XRC_QP_EVENT_FLAG 0x80000000U

/* Opens an XRC domain: private (fd -1), or that of a file. oflag: O_CREAT, O_EXCL. */
static inline struct ibv_xrcd *ibv_open_xrc_domain(struct ibv_context *context, int fd, int oflag)
{
	struct ibv_xrcd_init_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	attr.fd = fd;
	attr.oflags = oflag;
	return ibv_open_xrcd(context, &attr);
}

/* Closes an XRC domain. Fails with EBUSY while this process has SRQs in it or is registered with a QP. */
static inline int ibv_close_xrc_domain(struct ibv_xrcd *d)
{
	return ibv_close_xrcd(d);
}

/* Creates an SRQ in an XRC domain. The sender needs its member xrc_srq_num. Destroy it with ibv_destroy_srq.
 */
static inline struct ibv_srq *ibv_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrcd *xrc_domain,
						 struct ibv_cq *xrc_cq,
						 struct ibv_srq_init_attr *srq_init_attr)
{
	struct ibv_srq_init_attr_ex attr;
	struct ibv_srq *srq;

	memset(&attr, 0, sizeof(attr));
	attr.srq_context = srq_init_attr->srq_context;
	attr.attr = srq_init_attr->attr;
	attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			 IBV_SRQ_INIT_ATTR_CQ;
	attr.srq_type = IBV_SRQT_XRC;
	attr.pd = pd;
	attr.xrcd = xrc_domain;
	attr.cq = xrc_cq;
	srq = ibv_create_srq_ex(pd->context, &attr);
	if (srq)
		srq_init_attr->attr = attr.attr;
	return srq;
}

/* Opens a receive QP by its number. */
static inline struct ibv_qp *ibv_ofed_open_rcv_qp(struct ibv_xrcd *d, uint32_t number)
{
	struct ibv_qp_open_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	attr.qp_num = number;
	attr.xrcd = d;
	attr.qp_type = IBV_QPT_XRC_RECV;
	return ibv_open_qp(d->context, &attr);
}

/*
 * The receive QP of a number with which this process is registered, or NULL. *opened_in is the domain through
 * which it was registered.
 */
static inline struct ibv_qp *ibv_ofed_rcv_qp(struct ibv_xrcd *d, uint32_t number, struct ibv_xrcd **opened_in)
{
	struct ibv_ofed_object *entry;
	struct ibv_qp *qp = NULL;

	pthread_mutex_lock(&ibv_ofed_list.mutex);
	for (entry = ibv_ofed_list.first; entry; entry = entry->next) {
		struct ibv_qp *candidate = (struct ibv_qp *)entry->object;

		if (entry->kind == IBV_OFED_XRC_RCV_QP && candidate->context == d->context &&
		    candidate->qp_num == number) {
			qp = candidate;
			*opened_in = (struct ibv_xrcd *)entry->extra;
			break;
		}
	}
	pthread_mutex_unlock(&ibv_ofed_list.mutex);
	return qp;
}

/*
 * As ibv_ofed_rcv_qp, but a QP with which this process is not registered is opened: *temporary is then that
 * QP, else NULL. NULL with errno if the QP is not in domain d.
 */
static inline struct ibv_qp *ibv_ofed_borrow_rcv_qp(struct ibv_xrcd *d, uint32_t number,
						    struct ibv_qp **temporary)
{
	struct ibv_xrcd *opened_in = NULL;
	struct ibv_qp *qp = ibv_ofed_rcv_qp(d, number, &opened_in);

	*temporary = NULL;
	if (qp && opened_in == d)
		return qp;
	/* d may be another handle of the same domain: only opening the QP through it can tell */
	*temporary = ibv_ofed_open_rcv_qp(d, number);
	return *temporary && qp ? qp : *temporary;
}

static inline int ibv_ofed_register_rcv_qp(struct ibv_qp *qp, struct ibv_xrcd *d)
{
	int error;

	if (!qp)
		return errno;
	error = ibv_ofed_add(IBV_OFED_XRC_RCV_QP, qp, d, 0);
	if (error)
		ibv_destroy_qp(qp);
	return error;
}

#if IBV_OFED_AFTER_VERBS
__attribute__((error("include <infiniband/ofed.h> before <infiniband/verbs.h>, or compile with -include "
		     "infiniband/ofed.h"))) int
ibv_create_xrc_rcv_qp(struct ibv_qp_init_attr *init_attr, uint32_t *xrc_rcv_qpn);
#else
/* Creates a receive QP in init_attr->xrc_domain; no other member is read. The process is registered with it.
 */
static inline int ibv_create_xrc_rcv_qp(struct ibv_qp_init_attr *init_attr, uint32_t *xrc_rcv_qpn)
{
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp *qp;
	uint32_t number;
	int error;

	if (!init_attr || !init_attr->xrc_domain)
		return EINVAL;
	memset(&attr, 0, sizeof(attr));
	attr.qp_type = IBV_QPT_XRC_RECV;
	attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	attr.xrcd = init_attr->xrc_domain;
	qp = ibv_create_qp_ex(attr.xrcd->context, &attr);
	number = qp ? qp->qp_num : 0;
	error = ibv_ofed_register_rcv_qp(qp, attr.xrcd);
	if (!error)
		*xrc_rcv_qpn = number;
	return error;
}
#endif

/*
 * Changes the state of a receive QP: to INIT and to RTR, with the attributes that the transitions of an RC QP
 * need. EINVAL if the domain has no such QP.
 */
static inline int ibv_modify_xrc_rcv_qp(struct ibv_xrcd *xrc_domain, uint32_t xrc_qp_num,
					struct ibv_qp_attr *attr, int attr_mask)
{
	struct ibv_qp *temporary, *qp = ibv_ofed_borrow_rcv_qp(xrc_domain, xrc_qp_num, &temporary);
	int error = qp ? ibv_modify_qp(qp, attr, attr_mask) : errno;

	if (temporary)
		ibv_destroy_qp(temporary);
	return error;
}

/* Queries a receive QP. In OFED's order of the QP's creation, init_attr has no more than its type and domain.
 */
static inline int ibv_query_xrc_rcv_qp(struct ibv_xrcd *xrc_domain, uint32_t xrc_qp_num,
				       struct ibv_qp_attr *attr, int attr_mask,
				       struct ibv_qp_init_attr *init_attr)
{
	struct ibv_qp *temporary, *qp = ibv_ofed_borrow_rcv_qp(xrc_domain, xrc_qp_num, &temporary);
	int error = qp ? ibv_query_qp(qp, attr, attr_mask, init_attr) : errno;

#if !IBV_OFED_AFTER_VERBS
	if (!error)
		init_attr->xrc_domain = xrc_domain;
#endif
	if (temporary)
		ibv_destroy_qp(temporary);
	return error;
}

/* Registers this process with a receive QP. EINVAL if the domain has no such QP. */
static inline int ibv_reg_xrc_rcv_qp(struct ibv_xrcd *xrc_domain, uint32_t xrc_qp_num)
{
	struct ibv_qp *temporary, *qp = ibv_ofed_borrow_rcv_qp(xrc_domain, xrc_qp_num, &temporary);

	if (!qp || qp == temporary)
		return ibv_ofed_register_rcv_qp(qp, xrc_domain);
	if (temporary)
		ibv_destroy_qp(temporary);
	return 0;
}

/*
 * Ends the registration of this process. The QP is destroyed with the last registration. EINVAL if this
 * process is not registered, or the QP is in another domain.
 */
static inline int ibv_unreg_xrc_rcv_qp(struct ibv_xrcd *xrc_domain, uint32_t xrc_qp_num)
{
	struct ibv_qp *temporary, *qp = ibv_ofed_borrow_rcv_qp(xrc_domain, xrc_qp_num, &temporary);
	int registered = qp && qp != temporary;
	struct ibv_ofed_object entry;
	int error;

	if (temporary)
		ibv_destroy_qp(temporary);
	if (!registered || !ibv_ofed_find(IBV_OFED_XRC_RCV_QP, qp, &entry, 1))
		return EINVAL;
	error = ibv_destroy_qp(qp);
	if (error)
		ibv_ofed_add(IBV_OFED_XRC_RCV_QP, qp, entry.extra, 0);
	return error;
}

/* As ibv_get_async_event, with the events of XRC receive QPs in their old form. */
static inline int ibv_ofed_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	int result = ibv_get_async_event(context, event);
#if !IBV_OFED_AFTER_VERBS
	struct ibv_ofed_object entry;
	uint32_t number;

	if (result)
		return result;
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		if (!ibv_ofed_find(IBV_OFED_XRC_RCV_QP, event->element.qp, &entry, 0))
			break;
		number = event->element.qp->qp_num;
		ibv_ack_async_event(event);
		event->element.xrc_qp_num = number;
		event->event_type = (enum ibv_event_type)((unsigned int)event->event_type |
							  IBV_XRC_QP_EVENT_FLAG);
		break;
	default:
		break;
	}
#endif
	return result;
}

/* As ibv_ack_async_event; it ignores the events of XRC receive QPs. */
static inline void ibv_ofed_ack_async_event(struct ibv_async_event *event)
{
	if (!((unsigned int)event->event_type & IBV_XRC_QP_EVENT_FLAG))
		ibv_ack_async_event(event);
}

#define ibv_get_async_event ibv_ofed_get_async_event
#define ibv_ack_async_event ibv_ofed_ack_async_event

#ifdef __cplusplus
}
#endif

#endif

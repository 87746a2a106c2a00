/* compat10: completion and asynchronous events. */
#include "compat10.h"

#include <fcntl.h>
#include <poll.h>

static int readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 5000) == 1;
}

static void async_event(void)
{
	struct ibv_async_event event;
	int fd = context->today->async_fd;

	FILL(event);
	if (!readable(fd)) {
		printf("  no asynchronous event\n");
		return;
	}
	INT(v10_get_async_event(context, &event));
	printf("  %s\n", ibv_event_type_str(event.event_type));
	switch (event.event_type) {
	case IBV_EVENT_CQ_ERR:
		YES((void *)event.element.cq == recv_cq);
		break;
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		YES((void *)event.element.qp == a || (void *)event.element.qp == b);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		YES((void *)event.element.srq == srq);
		break;
	default:
		NUM(event.element.port_num);
		break;
	}
	VOID(v10_ack_async_event(&event));
}

/* Over the fake kernel: an event about an object, as the kernel would report it. */
static void push_async(enum ibv_event_type type, const void *object)
{
	struct {
		uint64_t element;
		uint32_t type;
		uint32_t reserved;
	} event = { (uintptr_t)object, type, 0 };

	if (walk_push(context->today->async_fd, &event, sizeof(event)))
		printf("  no event\n");
	else
		async_event();
}

void events(void)
{
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct v10_cq *cq = NULL;
	void *of_it = NULL;

	if (!moves_data) {
		uint64_t element = (uintptr_t)recv_cq->today;

		walk_push(channel->fd, &element, sizeof(element));
	}
	if (readable(channel->fd)) {
		INT(v10_get_cq_event(channel, &cq, &of_it));
		YES(cq == recv_cq);
		YES(of_it == &of_recv_cq);
		NUM(recv_cq->today->comp_events_completed);
		VOID(v10_ack_cq_events(recv_cq, 1));
		NUM(recv_cq->today->comp_events_completed);
	} else {
		printf("  no completion event\n");
	}
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	fcntl(context->today->async_fd, F_SETFL, O_NONBLOCK);
	if (moves_data) {
		struct ibv_async_event none;
		struct ibv_sge from = { (uintptr_t)buf, 100, mr->lkey };
		struct v10_send_wr send = {
			.wr_id = 50, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND,
		}, *bad;

		INT(v10_get_cq_event(channel, &cq, &of_it));
		INT(v10_get_async_event(context, &none));
		/* Two receives are posted: consuming one falls below the limit. */
		INT(v10_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
		INT(context->ops.post_send(a, &send, &bad));
		completion("sent", send_cq);
		completion("received", recv_cq);
		async_event();
	} else {
		INT(v10_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
		push_async(IBV_EVENT_CQ_ERR, recv_cq->today);
		push_async(IBV_EVENT_COMM_EST, a->today);
		push_async(IBV_EVENT_QP_LAST_WQE_REACHED, b->today);
		push_async(IBV_EVENT_SRQ_LIMIT_REACHED, srq->today);
		push_async(IBV_EVENT_PORT_ERR, (void *)1);
		push_async(IBV_EVENT_DEVICE_FATAL, (void *)7);
	}
}

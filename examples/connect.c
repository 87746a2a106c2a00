/*
 * From the name of a device to a connected queue pair.
 *
 * A connected queue pair (QP) needs four values from its peer: the address of the peer's port, the peer's QP
 * number, the first packet sequence number (PSN) that the peer sends, and the largest packet that its port
 * takes (MTU). Here the two sides exchange them over TCP; librdmacm does so with packets of its own.
 *
 * How the peer's port is addressed depends on the network (port_attr.link_layer):
 *
 *   InfiniBand   By LID, 16 bits that the subnet manager assigns. A global route header (GRH) with GIDs is
 *                needed only across subnets, and is allowed anyway.
 *   RoCE         By GID, always: is_global must be 1. A RoCE v2 packet is a UDP packet to port 4791, and the
 *                GIDs are its IP addresses. An IPv6 address is its own GID. The GID of the IPv4 address
 *                a.b.c.d is ::ffff:a.b.c.d. LIDs are 0.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common.h"

#define MAX_GIDS 1024

static struct ibv_context *open_by_name(const char *wanted)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	const char *name;
	int i = 0;

	if (!list)
		fail(errno, "ibv_get_device_list (IBV_UROCE=1 makes a device without hardware)");
	while (list[i] && wanted && strcmp(ibv_get_device_name(list[i]), wanted) != 0)
		i++;
	if (!list[i])
		fail(0, "there is no RDMA device%s%s (IBV_UROCE=1 makes uroce0, without hardware)",
		     wanted ? " " : "", wanted ? wanted : "");
	name = ibv_get_device_name(list[i]);
	context = ibv_open_device(list[i]);
	if (!context)
		fail(errno, "ibv_open_device %s", name);
	printf("device %s\n", name);
	ibv_free_device_list(list); /* open devices stay valid */
	return context;
}

/* The local IP address of the TCP connection, as a GID. */
static union ibv_gid gid_of_socket(int sock)
{
	struct sockaddr_storage storage = { 0 };
	socklen_t size = sizeof(storage);
	union ibv_gid gid = { 0 };

	if (getsockname(sock, (struct sockaddr *)&storage, &size))
		fail(errno, "getsockname");
	if (storage.ss_family == AF_INET6) {
		memcpy(&gid, &((struct sockaddr_in6 *)&storage)->sin6_addr, sizeof(gid));
	} else {
		gid.raw[10] = gid.raw[11] = 0xff; /* ::ffff:a.b.c.d */
		memcpy(&gid.raw[12], &((struct sockaddr_in *)&storage)->sin_addr, 4);
	}
	return gid;
}

static bool is_ipv4(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw);
}

/*
 * Chooses our GID. The port's GID table has an entry for each IP address of the network interface, and
 * often two: one for RoCE v1 (an Ethernet protocol of its own, which routers do not forward) and one for RoCE
 * v2. The index therefore decides on the source address and on the protocol, and both sides have to use the
 * same protocol. Entries move when addresses come and go: search for the GID, do not rely on a fixed index.
 *
 * The address of the TCP connection is the best choice, because the peer can be reached from there. If it is
 * not an address of this device (localhost, or a management network), the first IPv4 address is used.
 */
static void choose_gid(struct device *device, int sock)
{
	static struct ibv_gid_entry entries[MAX_GIDS];
	ssize_t n = ibv_query_gid_table(device->context, entries, MAX_GIDS, 0);
	union ibv_gid wanted = gid_of_socket(sock);
	const struct ibv_gid_entry *best = NULL;
	int best_rank = 0;

	if (n < 0)
		fail((int)-n, "ibv_query_gid_table");
	for (ssize_t i = 0; i < n; i++) {
		bool equal = memcmp(&entries[i].gid, &wanted, sizeof(wanted)) == 0;
		int rank = equal ? 3 : is_ipv4(&entries[i].gid) ? 2 : 1;

		if (entries[i].port_num != device->ib_port || entries[i].gid_type == IBV_GID_TYPE_ROCE_V1)
			continue;
		if (rank > best_rank) {
			best = &entries[i];
			best_rank = rank;
		}
	}
	if (!best)
		fail(0, "port %d has no RoCE v2 GID: does its network interface have an IP address?",
		     device->ib_port);
	device->gid_index = (uint8_t)best->gid_index;
	device->gid = best->gid;
}

struct device open_device(const struct options *options, int sock)
{
	struct device device = { .context = open_by_name(options->device), .ib_port = options->ib_port };
	char text[INET6_ADDRSTRLEN];
	int err = ibv_query_port(device.context, device.ib_port, &device.port_attr);

	if (err)
		fail(err, "ibv_query_port, port %d", device.ib_port);
	if (device.port_attr.state != IBV_PORT_ACTIVE)
		fail(0, "port %d is not active but %s: is the link up?", device.ib_port,
		     ibv_port_state_str(device.port_attr.state));
	device.grh = options->gid_index >= 0 ||
		     (device.port_attr.link_layer == IBV_LINK_LAYER_ETHERNET && !options->lid);
	if (options->gid_index >= 0) {
		device.gid_index = (uint8_t)options->gid_index;
		if (ibv_query_gid(device.context, device.ib_port, options->gid_index, &device.gid))
			fail(errno, "ibv_query_gid, port %d, index %d", device.ib_port, options->gid_index);
	} else if (device.grh) {
		choose_gid(&device, sock);
	}
	if (device.grh && !device.gid.global.interface_id)
		fail(0, "port %d has no GID at index %d", device.ib_port, device.gid_index);
	if (!device.grh && !device.port_attr.lid)
		fail(0, "port %d has no LID: RoCE has none (omit -l), InfiniBand needs a subnet manager",
		     device.ib_port);
	if (device.grh)
		printf("GID %s, index %d\n", inet_ntop(AF_INET6, &device.gid, text, sizeof(text)),
		       device.gid_index);
	else
		printf("LID 0x%04x\n", device.port_attr.lid);
	/* The protection domain: keys and queue pairs work together only within one. */
	device.pd = ibv_alloc_pd(device.context);
	if (!device.pd)
		fail(errno, "ibv_alloc_pd");
	return device;
}

void close_device(struct device *device)
{
	int err = ibv_dealloc_pd(device->pd);

	/* EBUSY: an object in the protection domain is left. Destroy in the reverse order of creation. */
	if (err)
		fail(err, "ibv_dealloc_pd");
	if (ibv_close_device(device->context))
		fail(errno, "ibv_close_device");
}

struct endpoint exchange(const struct device *device, int sock, uint32_t qpn, uint32_t psn)
{
	char line[256], gid[64];
	unsigned int lid, mtu;
	struct endpoint peer;

	inet_ntop(AF_INET6, &device->gid, gid, sizeof(gid));
	send_line(sock, "%u %s %u %u %u", device->port_attr.lid, gid, qpn, psn,
		  (unsigned int)device->port_attr.active_mtu);
	receive_line(sock, line, sizeof(line));
	if (sscanf(line, "%u %63s %u %u %u", &lid, gid, &peer.qpn, &peer.psn, &mtu) != 5 ||
	    inet_pton(AF_INET6, gid, &peer.gid) != 1 || lid > UINT16_MAX || mtu < IBV_MTU_256 ||
	    mtu > IBV_MTU_4096)
		fail(0, "the peer has sent \"%s\": is it the same example?", line);
	peer.lid = (uint16_t)lid;
	/* A larger packet than one of the ports can handle would be dropped. */
	peer.mtu = mtu < device->port_attr.active_mtu ? (enum ibv_mtu)mtu : device->port_attr.active_mtu;
	printf("peer: QP 0x%06x, PSN 0x%06x, LID 0x%04x, GID %s\n", peer.qpn, peer.psn, peer.lid, gid);
	return peer;
}

struct ibv_ah_attr path_to(const struct device *device, uint16_t lid, const union ibv_gid *gid)
{
	struct ibv_ah_attr path = { .port_num = device->ib_port, .dlid = lid };

	if (device->grh) {
		path.is_global = 1;
		path.grh.dgid = *gid;                    /* the destination address */
		path.grh.sgid_index = device->gid_index; /* the source address, by its index */
		/* IPv6's hop limit, IPv4's time to live. Some devices send it as it is: with 1, or with 0,
		 * which is the value if you forget it, routers drop the packets. */
		path.grh.hop_limit = 64;
	}
	return path;
}

/* The attributes that each transition needs depend on the type of the queue pair: ibv_modify_qp(3) lists
 * them. One that is missing, and one that is not allowed, are both EINVAL. */
void modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *state)
{
	int err = ibv_modify_qp(qp, attr, IBV_QP_STATE | mask);

	if (err == ETIMEDOUT || err == EHOSTUNREACH)
		fail(err, "ibv_modify_qp, to %s (the peer's GID is not reachable from the GID of this port)",
		     state);
	if (err)
		fail(err, "ibv_modify_qp, to %s", state);
}

/* RESET to INIT: receive requests can be posted from now on. */
void modify_to_init(const struct device *device, struct ibv_qp *qp, unsigned int remote_access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = device->ib_port,
		.pkey_index = 0,                  /* the partition; 0 is the default one */
		.qp_access_flags = remote_access, /* what the peer may do: 0 if it only sends */
	};

	modify_qp(qp, &attr, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS, "INIT");
}

/* INIT to RTR (ready to receive): the queue pair accepts the peer's packets. */
void modify_to_rtr(const struct device *device, struct ibv_qp *qp, const struct endpoint *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.ah_attr = path_to(device, peer->lid, &peer->gid),
		.path_mtu = peer->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,     /* must be the sq_psn of the peer */
		.max_dest_rd_atomic = 1, /* READs and atomics that the peer may have in flight */
		.min_rnr_timer = 12,     /* if no receive request is posted, the peer waits 0.64 ms */
	};
	int mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (qp->qp_type != IBV_QPT_XRC_SEND)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	modify_qp(qp, &attr, mask, "RTR");
}

/* RTR to RTS (ready to send): send requests can be posted. */
void modify_to_rts(struct ibv_qp *qp, uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.timeout = 14,      /* ack timeout: 4.096 us * 2^14 = 67 ms. 0 would wait without end */
		.retry_cnt = 7,     /* then IBV_WC_RETRY_EXC_ERR */
		.rnr_retry = 7,     /* 7: without limit; 0 to 6: then IBV_WC_RNR_RETRY_EXC_ERR */
		.max_rd_atomic = 1, /* at most the peer's max_dest_rd_atomic */
	};

	modify_qp(qp, &attr,
		  IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			  IBV_QP_MAX_QP_RD_ATOMIC,
		  "RTS");
}

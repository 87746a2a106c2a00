/*
 * devices list: prints the names of the devices, or errno; before them "privileged" if AT_SECURE says so.
 * devices list-as-nobody: the same, with another effective user ID than the real one.
 * devices lid NAME VALUE: prints the LID of the device's port; sets IBV_UROCE_LIDS to VALUE after the list.
 *
 * devices check NAME IFNAME: on the software device NAME, on the interface IFNAME, calls all functions that
 * query a device, a port or a GID, and checks the results. The cases uroce/devices/... run it.
 */
#include "../verbs/check.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/auxv.h>

int failures;

/* Declared by newer headers only. */
extern int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
			      unsigned int *type);
enum {
	SYSFS_ROCE_V2 = 1
};

static int list_devices(void)
{
	int n = -1;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (getauxval(AT_SECURE))
		printf("privileged ");
	if (!list) {
		printf("none: %s, %d\n", strerrorname_np(errno), n);
		return 1;
	}
	printf("%d:", n);
	for (int i = 0; list[i]; i++)
		printf(" %s", ibv_get_device_name(list[i]));
	printf("\n");
	ibv_free_device_list(list);
	return 0;
}

static struct ibv_device *find(struct ibv_device **list, const char *name)
{
	for (; list && *list; list++)
		if (!strcmp(ibv_get_device_name(*list), name))
			return *list;
	return NULL;
}

/* The port's LID, after the program has set IBV_UROCE_LIDS: the variable is read at the first list only. */
static int print_lid(const char *name, const char *too_late)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_port_attr port;

	setenv("IBV_UROCE_LIDS", too_late, 1);
	NEED(find(list, name));
	NEED(context = ibv_open_device(find(list, name)));
	CHECK(ibv_query_port(context, 1, &port) == 0);
	printf("LID 0x%04x\n", port.lid);
	CHECK(ibv_close_device(context) == 0);
	ibv_free_device_list(list);
	return failures != 0;
}

/* A device is the same object in each list, and remains valid while it is open. */
static struct ibv_context *check_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **again = ibv_get_device_list(NULL);
	struct ibv_device *device = find(list, name);
	struct ibv_context *context, *second;
	struct ibv_device_attr attr;

	NEED(device);
	CHECK(find(again, name) == device);
	ibv_free_device_list(again);
	CHECK(device->node_type == IBV_NODE_CA);
	CHECK(device->transport_type == IBV_TRANSPORT_IB);
	CHECK(ibv_get_device_index(device) == -1);
	CHECK(ibv_get_device_guid(device) != 0);
	CHECK(ibv_get_device_guid(device) == ibv_get_device_guid(device));
	context = ibv_open_device(device);
	NEED(context);
	CHECK(ibv_query_device(context, &attr) == 0);
	CHECK(attr.node_guid == ibv_get_device_guid(device));
	CHECK(attr.sys_image_guid == attr.node_guid);
	second = ibv_open_device(device);
	NEED(second);
	ibv_free_device_list(list);
	CHECK(!strcmp(ibv_get_device_name(context->device), name));
	CHECK(ibv_close_device(second) == 0);
	/* For a kernel device this is a file descriptor. */
	CHECK(context->cmd_fd >= 0);
	CHECK(!ibv_import_device(context->async_fd) && errno == EINVAL);
	return context;
}

static void check_gids(struct ibv_context *context, const char *ifname)
{
	struct ibv_gid_entry table[1024], one, few[2];
	struct {
		struct ibv_gid_entry entry;
		uint64_t newer;
	} large[1024];
	struct ibv_port_attr port;
	unsigned int type = 99;
	union ibv_gid gid;
	ssize_t n;

	CHECK(ibv_query_port(context, 1, &port) == 0);
	CHECK(port.gid_tbl_len == 256);
	n = ibv_query_gid_table(context, table, 1024, 0);
	NEED(n >= 2);
	for (ssize_t i = 0; i < n; i++) {
		uint32_t index = table[i].gid_index;

		CHECK(table[i].port_num == 1);
		CHECK(table[i].gid_type == IBV_GID_TYPE_ROCE_V2);
		CHECK(table[i].ndev_ifindex == if_nametoindex(ifname));
		CHECK(ibv_query_gid(context, 1, index, &gid) == 0);
		CHECK(!memcmp(&gid, &table[i].gid, sizeof(gid)));
		CHECK(ibv_query_gid_ex(context, 1, index, &one, 0) == 0);
		CHECK(!memcmp(&one, &table[i], sizeof(one)));
		CHECK(ibv_query_gid_type(context, 1, index, &type) == 0 && type == SYSFS_ROCE_V2);
	}
	/* The first entry is link-local, followed by IPv4. */
	CHECK(table[0].gid.raw[0] == 0xfe && table[0].gid.raw[1] == 0x80);
	CHECK(table[1].gid.raw[10] == 0xff && table[1].gid.raw[11] == 0xff);

	/* Empty entries, and entries beyond the table. */
	CHECK(ibv_query_gid(context, 1, port.gid_tbl_len - 1, &gid) == 0);
	for (int i = 0; i < 16; i++)
		CHECK(gid.raw[i] == 0);
	CHECK(ibv_query_gid_ex(context, 1, port.gid_tbl_len - 1, &one, 0) == ENODATA);
	CHECK(ibv_query_gid(context, 1, port.gid_tbl_len, &gid) == -1 && errno == EINVAL);
	CHECK(ibv_query_gid(context, 1, -1, &gid) == -1 && errno == EINVAL);
	CHECK(ibv_query_gid(context, 2, 0, &gid) == -1 && errno == EINVAL);
	CHECK(ibv_query_gid(context, 0, 0, &gid) == -1 && errno == EINVAL);
	CHECK(ibv_query_gid_type(context, 2, 0, &type) == -1);
	CHECK(ibv_query_gid_ex(context, 1, 0, &one, 1) == EOPNOTSUPP);
	CHECK(ibv_query_gid_table(context, table, 1024, 1) == -EOPNOTSUPP);
	CHECK(_ibv_query_gid_ex(context, 1, 0, &one, 0, sizeof(one) - 1) == EINVAL);

	/* Not enough room; exactly enough; an entry size of a later release. */
	CHECK(ibv_query_gid_table(context, table, n - 1, 0) == -EINVAL);
	CHECK(ibv_query_gid_table(context, table, n, 0) == n);
	CHECK(ibv_query_gid_table(context, few, 0, 0) == -EINVAL);
	memset(large, 0xee, sizeof(large));
	CHECK(_ibv_query_gid_table(context, &large[0].entry, 1024, 0, sizeof(large[0])) == n);
	for (ssize_t i = 0; i < n; i++) {
		CHECK(!memcmp(&large[i].entry, &table[i], sizeof(one)));
		CHECK(large[i].newer == 0);
	}
	CHECK(large[n].newer == 0xeeeeeeeeeeeeeeee);
}

static void check_pkeys(struct ibv_context *context)
{
	__be16 pkey = 0;

	CHECK(ibv_query_pkey(context, 1, 0, &pkey) == 0 && pkey == 0xffff);
	CHECK(ibv_query_pkey(context, 1, 1, &pkey) == -1 && errno == EINVAL);
	CHECK(ibv_query_pkey(context, 1, -1, &pkey) == -1);
	CHECK(ibv_query_pkey(context, 2, 0, &pkey) == -1);
	CHECK(ibv_get_pkey_index(context, 1, 0xffff) == 0);
	CHECK(ibv_get_pkey_index(context, 1, htons(0x8001)) == -1);
}

static void check_channels(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq;
	struct pollfd poll_fd;

	NEED(channel);
	CHECK(channel->context == context && channel->refcnt == 0);
	poll_fd = (struct pollfd){ .fd = channel->fd, .events = POLLIN };
	CHECK(poll(&poll_fd, 1, 0) == 0);
	cq = ibv_create_cq(context, 1, NULL, channel, 0);
	NEED(cq);
	CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
	CHECK(ibv_destroy_cq(cq) == 0);
	poll_fd.fd = dup(channel->fd);
	CHECK(ibv_destroy_comp_channel(channel) == 0);
	/* The descriptor is closed: a poll on a duplicate reports the end. */
	CHECK(poll(&poll_fd, 1, 0) == 1);
	close(poll_fd.fd);
}

/* An address for replies to a message of our own, with the GRH that the device wrote. */
static void check_answers(struct ibv_context *context)
{
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_gid_entry table[1024];
	ssize_t n = ibv_query_gid_table(context, table, 1024, 0);

	NEED(pd && n >= 2);
	for (ssize_t i = 0; i < n; i++) {
		uint8_t *raw = table[i].gid.raw, grh[40] = { 0 }, mac[6];
		static const uint8_t mapped[12] = { [10] = 0xff, 0xff };
		struct ibv_ah_attr attr;
		struct ibv_ah *ah;
		uint16_t vlan = 0;

		if (!memcmp(raw, mapped, 12)) {
			uint32_t sum = 0;

			grh[20] = 0x45;
			grh[21] = 4;
			grh[28] = 9;
			grh[29] = IPPROTO_UDP;
			memcpy(grh + 32, raw + 12, 4);
			memcpy(grh + 36, raw + 12, 4);
			for (int at = 20; at < 40; at += 2)
				sum += grh[at] << 8 | grh[at + 1];
			sum = (sum & 0xffff) + (sum >> 16);
			sum = ~((sum & 0xffff) + (sum >> 16));
			grh[30] = sum >> 8;
			grh[31] = sum;
		} else {
			grh[0] = 0x60;
			grh[1] = 0x40;
			grh[6] = IPPROTO_UDP;
			grh[7] = 9;
			memcpy(grh + 8, raw, 16);
			memcpy(grh + 24, raw, 16);
		}
		CHECK(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)grh, &attr) == 0);
		CHECK(!memcmp(attr.grh.dgid.raw, raw, 16));
		CHECK(attr.grh.sgid_index == table[i].gid_index);
		CHECK(attr.grh.traffic_class == 4 && attr.grh.hop_limit == 9 && attr.is_global);
		ah = ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)grh, 1);
		CHECK(ah && ibv_destroy_ah(ah) == 0);
		/*
		 * Kernel providers of Ethernet devices resolve addresses so: our own address gives this
		 * interface's MAC.
		 */
		if (i > 0) {
			CHECK(ibv_resolve_eth_l2_from_gid(context, &attr, mac, &vlan) == 0);
			CHECK(vlan == 0xffff);
		}
		/* A GID that is not in the table. */
		grh[39] ^= 0x55;
		grh[30] = grh[31] = 0;
		CHECK(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)grh, &attr) == -1);
	}
	CHECK(ibv_dealloc_pd(pd) == 0);
}

int main(int argc, char **argv)
{
	struct ibv_context *context;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "list"))
		return list_devices();
	if (argc == 2 && !strcmp(argv[1], "list-as-nobody"))
		return seteuid(65534) ? 2 : list_devices();
	if (argc == 4 && !strcmp(argv[1], "lid"))
		return print_lid(argv[2], argv[3]);
	if (argc != 4 || strcmp(argv[1], "check"))
		return 2;
	context = check_device(argv[2]);
	check_gids(context, argv[3]);
	check_pkeys(context);
	check_channels(context);
	check_answers(context);
	CHECK(ibv_close_device(context) == 0);
	return failures != 0;
}

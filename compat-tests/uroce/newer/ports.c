/* The speed of a port, which its width and the speed of a lane in ibv_query_port encode. */
#include "newer.h"

/* In units of 100 Mb/s, as the InfiniBand specification and verbs.h number the speeds: SDR to XDR. */
static uint64_t of_a_lane(uint32_t active_speed)
{
	static const uint16_t speeds[] = { 25, 50, 100, 100, 140, 250, 500, 1000, 2000 };
	unsigned int at;

	for (at = 0; at < sizeof(speeds) / sizeof(*speeds); at++)
		if (active_speed == 1u << at)
			return speeds[at];
	return 0;
}

static uint64_t lanes(uint8_t active_width)
{
	switch (active_width) {
	case 1:
		return 1;
	case 2:
		return 4;
	case 4:
		return 8;
	case 8:
		return 12;
	case 16:
		return 2;
	default:
		return 0;
	}
}

static void port_speed(struct rig *rig)
{
	struct ibv_port_attr attr;
	uint64_t speed = 0;

	NEED(ibv_query_port(rig->context, PORT, &attr) == 0);
	NEED(of_a_lane(attr.active_speed) && lanes(attr.active_width));
	CHECK(ibv_query_port_speed(rig->context, PORT, &speed) == 0);
	CHECK(speed == lanes(attr.active_width) * of_a_lane(attr.active_speed));
	CHECK(ibv_query_port_speed(rig->context, 0, &speed) == EINVAL);
	CHECK(ibv_query_port_speed(rig->context, PORT + 1, &speed) == EINVAL);
}

const check_part port_speed_parts[] = { port_speed, NULL };

/* What comes from the network: forged packets, an interface that goes down and up. */
#include "rig.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct how plain;

/* The invariant CRC: of 8 bytes of ones, the IP and UDP headers and the BTH with what may change on the way as ones, and
 * the rest. */
static uint32_t icrc(const uint8_t *ip_udp, const uint8_t *packet, size_t size)
{
    uint32_t crc = 0xffffffff;
    uint8_t head[8 + 28 + 12];

    memset(head, 0xff, 8);
    memcpy(head + 8, ip_udp, 28);
    memcpy(head + 36, packet, 12);
    head[8 + 1] = 0xff;                   /* type of service */
    head[8 + 8] = 0xff;                   /* time to live */
    head[8 + 10] = head[8 + 11] = 0xff;   /* checksum */
    head[8 + 26] = head[8 + 27] = 0xff;   /* UDP checksum */
    head[36 + 4] = 0xff;                  /* reserved, congestion bits */
    for (size_t i = 0; i < sizeof head + size - 12; i++) {
        crc ^= i < sizeof head ? head[i] : packet[i - sizeof head + 12];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

static uint32_t any(void)
{
    uint32_t n;

    MUST(getrandom(&n, sizeof n, 0) == sizeof n);
    return n;
}

static int far_from(uint32_t psn, uint32_t expected)
{
    uint32_t distance = (psn - expected) & 0xffffff;

    return distance > 64 && distance < 0xffffff - 64;
}

/* Packets that another user of the machine may send: well-formed, with every opcode, to queue pairs that are there, but
 * without knowing their keys and sequence numbers. */
static void forged(void)
{
    struct end a, b;
    struct sockaddr_in to = {.sin_family = AF_INET}, from = {0};
    socklen_t length = sizeof from;
    uint8_t packet[600], head[28] = {0x45};
    char before[SIZE];
    int fd, sent = 0;

    make_pair(&a, &b, &plain, &plain);
    MUST(post_receive(&b) == 0);
    for (int i = 0; i < SIZE; i++)
        b.memory[i] = i * 7;
    memcpy(before, b.memory, SIZE);

    memcpy(&to.sin_addr, b.self.gid.raw + 12, 4);
    MUST((fd = socket(AF_INET, SOCK_DGRAM, 0)) >= 0);
    int discover = IP_PMTUDISC_DO; /* identification 0, don't fragment */
    MUST(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover) == 0);
    for (int i = 0; i < 20000; i++) {
        struct end *victim = i & 1 ? &a : &b;
        uint32_t qpn = i % 7 == 0 ? any() & 0xffffff : victim->self.qpn, psn, crc;
        size_t size = 12 + any() % 200 * 4;

        if (size > sizeof packet - 4)
            size = sizeof packet - 4;
        do
            psn = any() & 0xffffff;
        while (!far_from(psn, a.self.psn) || !far_from(psn, b.self.psn));
        MUST(getrandom(packet, size, 0) == (ssize_t)size);
        packet[0] = i / 64;             /* every opcode, many times */
        if (i % 3)
            packet[1] &= 0x80;          /* version 0, no padding */
        packet[2] = packet[3] = 0xff;   /* P_Key */
        packet[4] = 0;
        packet[5] = qpn >> 16, packet[6] = qpn >> 8, packet[7] = qpn;
        packet[9] = psn >> 16, packet[10] = psn >> 8, packet[11] = psn;
        uint16_t port = qpn >> 8 >= 0x8000 ? qpn >> 8 : 4791;
        to.sin_port = htons(port);
        if (from.sin_port == 0) {
            MUST(sendto(fd, "", 0, 0, (void *)&to, sizeof to) == 0);
            MUST(getsockname(fd, (void *)&from, &length) == 0);
        }
        uint16_t total = 28 + size + 4, udp = 8 + size + 4;
        head[2] = total >> 8, head[3] = total;
        head[6] = 0x40; /* don't fragment */
        head[9] = 17;
        memcpy(head + 12, &to.sin_addr, 4); /* the machine's own address */
        memcpy(head + 16, &to.sin_addr, 4);
        memcpy(head + 20, &from.sin_port, 2);
        memcpy(head + 22, &to.sin_port, 2);
        head[24] = udp >> 8, head[25] = udp;
        crc = icrc(head, packet, size);
        memcpy(packet + size, &crc, 4);
        sent += sendto(fd, packet, size + 4, 0, (void *)&to, sizeof to) == (ssize_t)size + 4;
        if (i % 50 == 0)
            usleep(1000); /* for the receiver's socket to hold them all */
    }
    settle();
    tell("sent: %s", sent > 19000 ? "nearly all" : "TOO FEW");
    tell("memory: %s", memcmp(before, b.memory, SIZE) ? "CHANGED" : "unchanged");
    tell("queue pairs: %s, %s", state(&a), state(&b));
    tell("completions: %s, events: %s", nothing(&a) && nothing(&b) ? "none" : "SOME", no_event(&a) && no_event(&b) ? "none" : "SOME");
    MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
    tell("traffic: %s, %s", status(&a), status(&b));
    close(fd);
    close_end(&a);
    close_end(&b);
}

static void sh(const char *command)
{
    fflush(stdout);
    if (system(command) != 0)
        fail(command);
}

/* The interface (LINK in the environment) goes down and up, and gets another address: in a network namespace. */
static void link_down(void)
{
    struct how patient = {.timeout = 16};
    struct end a, b;
    struct ibv_port_attr port;

    make_pair(&a, &b, &patient, &patient);
    MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
    tell("up: %s", status(&a));
    sh("ip link set $LINK down");
    tell("down: %s", event(&a));
    MUST(ibv_query_port(a.context, 1, &port) == 0);
    tell("port: %s", ibv_port_state_str(port.state));
    MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
    sh("ip link set $LINK up");
    const char *name;
    do
        name = event(&a);
    while (!strcmp(name, ibv_event_type_str(IBV_EVENT_GID_CHANGE)));
    tell("up again: %s", name);
    MUST(ibv_query_port(a.context, 1, &port) == 0);
    tell("port: %s", ibv_port_state_str(port.state));
    tell("what was posted in between: %s", status(&a));
    settle();
    while (!no_event(&a))
        event(&a);
    sh("ip addr add 10.9.7.77/24 dev $LINK");
    tell("an address more: %s", event(&a));
    union ibv_gid gid;
    int found = -1;
    for (int i = 0; i < 16 && found < 0; i++)
        if (ibv_query_gid(a.context, 1, i, &gid) == 0 && gid.raw[12] == 10 && gid.raw[15] == 77)
            found = i;
    tell("its GID: %s", found >= 0 ? "there" : "MISSING");
    sh("ip addr del 10.9.7.77/24 dev $LINK");
    tell("an address less: %s", event(&a));
    tell("its GID: %s", found >= 0 && ibv_query_gid(a.context, 1, found, &gid) == 0 && gid.raw[15] == 77 ? "STILL THERE" : "gone");
    MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
    tell("traffic: %s", status(&a));
    close_end(&a);
    close_end(&b);
}

const struct scene host_scenes[] = {{"forged", forged, true}, {"link", link_down}, {0}};

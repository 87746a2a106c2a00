/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Opcodes of packets: those of the base transport header.
 */
#ifndef INFINIBAND_OPCODE_H
#define INFINIBAND_OPCODE_H

/* Defines, in an enum, the opcode of an operation over a transport. */
#define IBV_OPCODE(transport, op)                                                                          \
	IBV_OPCODE_##transport##_##op = IBV_OPCODE_##transport + IBV_OPCODE_##op

/* What connections of all kinds can do, and what only those that answer can. */
#define __IBV_OPCODES_SEND_WRITE(transport)                                                                \
	IBV_OPCODE(transport, SEND_FIRST),                                                                 \
		IBV_OPCODE(transport, SEND_MIDDLE),                                                        \
		IBV_OPCODE(transport, SEND_LAST),                                                          \
		IBV_OPCODE(transport, SEND_LAST_WITH_IMMEDIATE),                                           \
		IBV_OPCODE(transport, SEND_ONLY),                                                          \
		IBV_OPCODE(transport, SEND_ONLY_WITH_IMMEDIATE),                                           \
		IBV_OPCODE(transport, RDMA_WRITE_FIRST),                                                   \
		IBV_OPCODE(transport, RDMA_WRITE_MIDDLE),                                                  \
		IBV_OPCODE(transport, RDMA_WRITE_LAST),                                                    \
		IBV_OPCODE(transport, RDMA_WRITE_LAST_WITH_IMMEDIATE),                                     \
		IBV_OPCODE(transport, RDMA_WRITE_ONLY),                                                    \
		IBV_OPCODE(transport, RDMA_WRITE_ONLY_WITH_IMMEDIATE)
#define __IBV_OPCODES_ANSWERED(transport)                                                                  \
	IBV_OPCODE(transport, RDMA_READ_REQUEST),                                                          \
		IBV_OPCODE(transport, RDMA_READ_RESPONSE_FIRST),                                           \
		IBV_OPCODE(transport, RDMA_READ_RESPONSE_MIDDLE),                                          \
		IBV_OPCODE(transport, RDMA_READ_RESPONSE_LAST),                                            \
		IBV_OPCODE(transport, RDMA_READ_RESPONSE_ONLY),                                            \
		IBV_OPCODE(transport, ACKNOWLEDGE),                                                        \
		IBV_OPCODE(transport, ATOMIC_ACKNOWLEDGE),                                                 \
		IBV_OPCODE(transport, COMPARE_SWAP),                                                       \
		IBV_OPCODE(transport, FETCH_ADD)

enum {
	/* transports: the three high bits */
	IBV_OPCODE_RC = 0x00,
	IBV_OPCODE_UC = 0x20,
	IBV_OPCODE_RD = 0x40,
	IBV_OPCODE_UD = 0x60,

	/* operations: the five low ones */
	IBV_OPCODE_SEND_FIRST = 0x00,
	IBV_OPCODE_SEND_MIDDLE = 0x01,
	IBV_OPCODE_SEND_LAST = 0x02,
	IBV_OPCODE_SEND_LAST_WITH_IMMEDIATE = 0x03,
	IBV_OPCODE_SEND_ONLY = 0x04,
	IBV_OPCODE_SEND_ONLY_WITH_IMMEDIATE = 0x05,
	IBV_OPCODE_RDMA_WRITE_FIRST = 0x06,
	IBV_OPCODE_RDMA_WRITE_MIDDLE = 0x07,
	IBV_OPCODE_RDMA_WRITE_LAST = 0x08,
	IBV_OPCODE_RDMA_WRITE_LAST_WITH_IMMEDIATE = 0x09,
	IBV_OPCODE_RDMA_WRITE_ONLY = 0x0a,
	IBV_OPCODE_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0x0b,
	IBV_OPCODE_RDMA_READ_REQUEST = 0x0c,
	IBV_OPCODE_RDMA_READ_RESPONSE_FIRST = 0x0d,
	IBV_OPCODE_RDMA_READ_RESPONSE_MIDDLE = 0x0e,
	IBV_OPCODE_RDMA_READ_RESPONSE_LAST = 0x0f,
	IBV_OPCODE_RDMA_READ_RESPONSE_ONLY = 0x10,
	IBV_OPCODE_ACKNOWLEDGE = 0x11,
	IBV_OPCODE_ATOMIC_ACKNOWLEDGE = 0x12,
	IBV_OPCODE_COMPARE_SWAP = 0x13,
	IBV_OPCODE_FETCH_ADD = 0x14,

	/* both together: IBV_OPCODE_RC_SEND_FIRST and so on */
	__IBV_OPCODES_SEND_WRITE(RC),
	__IBV_OPCODES_ANSWERED(RC),
	__IBV_OPCODES_SEND_WRITE(UC),
	__IBV_OPCODES_SEND_WRITE(RD),
	__IBV_OPCODES_ANSWERED(RD),
	IBV_OPCODE(UD, SEND_ONLY),
	IBV_OPCODE(UD, SEND_ONLY_WITH_IMMEDIATE)
};

#undef __IBV_OPCODES_SEND_WRITE
#undef __IBV_OPCODES_ANSWERED

#endif

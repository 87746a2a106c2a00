/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For programs of OFED 1.x and MLNX_OFED up to 4.x: the names of their libibverbs that rdma-core does not
 * have, as inline functions over today's verbs.
 *
 *  - XRC domains: ibv_open_xrc_domain, ibv_create_xrc_srq, ibv_create_xrc_rcv_qp and the calls that belong to
 *    them, the members xrc_domain, xrc_remote_srq_num and xrc_srq_num (ofed/xrc.h)
 *  - the experimental verbs, ibv_exp_*, as of MLNX_OFED 4.6 (the other headers in ofed/)
 *
 * Include this header before any other header of infiniband/ or rdma/, or compile with
 * "-include infiniband/ofed.h". If verbs.h comes first, the members of the XRC family do not exist, and
 * ibv_create_xrc_rcv_qp cannot be called; the experimental verbs work in any order.
 *
 * The functions work with any libibverbs of rdma-core, this one or the original: the library exports nothing
 * for them.
 *
 * Unless a comment says otherwise, return values are those of today's verbs: a pointer, or NULL with errno;
 * 0, or a positive errno value. What verbs have no successor for fails with ENOSYS. A comp_mask with a bit
 * that MLNX_OFED 4.6 does not define fails with EINVAL. The functions are thread-safe as the verbs are that
 * they call.
 *
 * docs/porting.md says for each old name what to call instead.
 */
#ifndef INFINIBAND_OFED_H
#ifdef INFINIBAND_VERBS_H
#define IBV_OFED_AFTER_VERBS 1
#else
#define IBV_OFED_AFTER_VERBS 0
#include <infiniband/ofed/members.h>
#endif
#define INFINIBAND_OFED_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include <infiniband/ofed/objects.h>

#include <infiniband/ofed/xrc.h>

#include <infiniband/ofed/exp_device.h>

#include <infiniband/ofed/exp_port.h>

#include <infiniband/ofed/exp_mr.h>

#include <infiniband/ofed/exp_cq.h>

#include <infiniband/ofed/exp_wq.h>

#include <infiniband/ofed/exp_qp.h>

#include <infiniband/ofed/exp_post.h>

#include <infiniband/ofed/exp_srq.h>

#include <infiniband/ofed/exp_flow.h>

#include <infiniband/ofed/exp_intf.h>

#include <infiniband/ofed/exp_none.h>

#include <infiniband/ofed/exp_ec.h>

#include <infiniband/ofed/exp_peer.h>

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * MLNX_OFED's name for a part of infiniband/ofed.h. Not beside verbs.h, where configure scripts of today's
 * programs would take it for a sign that MLNX_OFED is installed.
 */
#ifndef INFINIBAND_OFED_OLD_PEER_OPS_H
#define INFINIBAND_OFED_OLD_PEER_OPS_H

#include <infiniband/ofed.h>

#endif

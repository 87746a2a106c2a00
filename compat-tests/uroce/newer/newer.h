/* The checks of newer verbs. */
#pragma once

#include "check.h"

/* The library that the program is linked with lacks these. */
#pragma weak _ibv_query_comp_cntr_caps
#pragma weak ibv_create_comp_cntr
#pragma weak ibv_destroy_comp_cntr
#pragma weak ibv_inc_comp_cntr
#pragma weak ibv_inc_err_comp_cntr
#pragma weak ibv_qp_attach_comp_cntr
#pragma weak ibv_query_port_speed
#pragma weak ibv_read_comp_cntr
#pragma weak ibv_read_err_comp_cntr
#pragma weak ibv_set_comp_cntr
#pragma weak ibv_set_err_comp_cntr

extern const check_part counters_parts[], port_speed_parts[];

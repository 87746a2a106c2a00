/* The scenes of the program, over several files. */
#pragma once

#include "../../uroce/verbs/check.h"

/* Scenes of calls.c: verbs that fail. */
void call(struct rig *rig, char **argv);
void calls(struct rig *rig, char **argv);
void built(struct rig *rig, char **argv);

/* The scene of operations.c. */
void operation(struct rig *rig, char **argv);

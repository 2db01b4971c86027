// Fusing: joins a step with the send that follows it in its lane, so that a value is touched once.
// Pure; any thread.
//   recv -> X,   X -> send L            becomes  recv -> X -> send L     (the same for a reduction and a copy)
//   X -> send K, X -> send L            becomes  X -> send K L           where K and L have no rank in common
// Copies that do not write X may lie between the two. Nothing else may: a send that moves before a step that can block
// could keep that step from running. A send that waits for another lane stays where it is.
// A fused step wants room for all of its sends at once, so the result is to be verified like any other Schedule.
#pragma once

#include "sched/schedule.h"

namespace rondo {

// `schedule` must be sound in structure (check_structure).
Schedule fuse(const Schedule& schedule);

}  // namespace rondo

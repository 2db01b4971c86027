// From rondo_options and the environment to what the communicator layer takes.
#pragma once

#include "comm/communicator.h"
#include "rondo/rondo.h"

namespace rondo::capi {

struct Settings {
  FabricOptions fabric;
  CommunicatorSettings communicator;
};

// Null options: everything from the environment. Unknown RONDO_ variables are warned about.
Result<Settings> settings_of(const rondo_options* options);
// Null: all defaults.
Result<CallOptions> call_options_of(const rondo_call_options* options);

}  // namespace rondo::capi

// The one list of built-in transports. A new transport is one folder under transports/ and one line in wiring.cpp.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/status.h"
#include "transport/contract.h"
#include "transport/identity.h"

namespace rondo {

struct TransportSettings {
  Identity identity;
  const Config* config = nullptr;
  std::string bind_host;  // numeric address for network transports
};

struct TransportKind {
  std::string_view name;
  bool one_host;  // only between ranks whose host ids are equal
  std::function<Result<std::unique_ptr<Transport>>(const TransportSettings&)> make;
};

// In order of preference.
std::span<const TransportKind> transport_kinds();

}  // namespace rondo

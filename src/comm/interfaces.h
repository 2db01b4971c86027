// Which local address network transports listen on, when RONDO_INTERFACE says so. choose_address is pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rondo {

struct InterfaceAddress {
  std::string name;     // "eth0"
  std::string address;  // numeric, IPv4 or IPv6
  bool loopback = false;
};

// Of the interfaces that are up; IPv4 before IPv6, without link-local IPv6 addresses, which mean nothing elsewhere.
Result<std::vector<InterfaceAddress>> interface_addresses();

// `spec` is a list of names, prefixes ("eth*") and blocks ("10.0.0.0/8"), separated by commas; an item behind ^ is
// excluded. The address that `preferred` names is taken when the list allows it, else the first that the earliest item
// allows; with exclusions only, the first that is not loopback. Invalid: a malformed item, or none that is allowed; the
// text lists what there is.
Result<std::string> choose_address(std::string_view spec, std::span<const InterfaceAddress> present,
                                   std::string_view preferred);

}  // namespace rondo

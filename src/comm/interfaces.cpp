#include "comm/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>

namespace rondo {
namespace {

struct NumericAddress {
  std::array<uint8_t, 16> bytes{};
  size_t size = 0;  // 4 or 16 bytes
};

std::optional<NumericAddress> parse_address(const std::string& text) {
  NumericAddress out;
  if (inet_pton(AF_INET, text.c_str(), out.bytes.data()) == 1) {
    out.size = 4;
  } else if (inet_pton(AF_INET6, text.c_str(), out.bytes.data()) == 1) {
    out.size = 16;
  } else {
    return std::nullopt;
  }
  return out;
}

struct Item {
  bool excludes = false;
  bool prefix = false;
  std::string name;  // or the block's address
  std::optional<NumericAddress> block;
  unsigned bits = 0;
};

bool inside(const NumericAddress& address, const Item& item) {
  if (address.size != item.block->size) return false;
  for (unsigned bit = 0; bit < item.bits; ++bit) {
    const uint8_t mask = static_cast<uint8_t>(0x80u >> (bit % 8));
    if ((address.bytes[bit / 8] & mask) != (item.block->bytes[bit / 8] & mask)) return false;
  }
  return true;
}

bool matches(const Item& item, const InterfaceAddress& candidate) {
  if (item.block) {
    const auto address = parse_address(candidate.address);
    return address && inside(*address, item);
  }
  return item.prefix ? candidate.name.starts_with(item.name) : candidate.name == item.name;
}

Result<Item> parse_item(std::string_view text) {
  Item item;
  const std::string whole(text);
  if (text.starts_with('^')) {
    item.excludes = true;
    text.remove_prefix(1);
  }
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const std::string_view bits = text.substr(slash + 1);
    item.name = std::string(text.substr(0, slash));
    item.block = parse_address(item.name);
    const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), item.bits);
    if (!item.block || error != std::errc() || end != bits.data() + bits.size() || item.bits > item.block->size * 8)
      return fail(Code::invalid, "RONDO_INTERFACE: '{}' is no address block", whole);
    return item;
  }
  if (text.ends_with('*')) {
    item.prefix = true;
    text.remove_suffix(1);
  }
  if (text.empty() && !item.prefix) return fail(Code::invalid, "RONDO_INTERFACE: '{}' names no interface", whole);
  item.name = std::string(text);
  return item;
}

Result<std::vector<Item>> parse_spec(std::string_view spec) {
  std::vector<Item> items;
  while (!spec.empty()) {
    const size_t comma = spec.find(',');
    const std::string_view text = spec.substr(0, comma);
    spec.remove_prefix(comma == std::string_view::npos ? spec.size() : comma + 1);
    if (text.empty()) continue;
    auto item = parse_item(text);
    if (!item.ok()) return item.status();
    items.push_back(std::move(item).value());
  }
  if (items.empty()) return fail(Code::invalid, "RONDO_INTERFACE: the list is empty");
  return items;
}

std::string listed(std::span<const InterfaceAddress> present) {
  std::string text;
  for (const InterfaceAddress& one : present)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", one.name, one.address);
  return text.empty() ? "none" : text;
}

// The addresses that the list allows, best first.
std::vector<const InterfaceAddress*> allowed(const std::vector<Item>& items,
                                             std::span<const InterfaceAddress> present) {
  const auto excluded = [&](const InterfaceAddress& one) {
    return std::any_of(items.begin(), items.end(), [&](const Item& i) { return i.excludes && matches(i, one); });
  };
  std::vector<const InterfaceAddress*> out;
  bool only_exclusions = true;
  for (const Item& item : items) {
    if (item.excludes) continue;
    only_exclusions = false;
    for (const InterfaceAddress& one : present)
      if (matches(item, one) && !excluded(one)) out.push_back(&one);
  }
  if (only_exclusions)
    for (const InterfaceAddress& one : present)
      if (!one.loopback && !excluded(one)) out.push_back(&one);
  return out;
}

}  // namespace

Result<std::string> choose_address(std::string_view spec, std::span<const InterfaceAddress> present,
                                   std::string_view preferred) {
  auto items = parse_spec(spec);
  if (!items.ok()) return items.status();
  const auto candidates = allowed(*items, present);
  if (candidates.empty())
    return fail(Code::invalid, "RONDO_INTERFACE={}: allows no interface of this host; there are {}", spec,
                listed(present));
  for (const InterfaceAddress* one : candidates)
    if (one->address == preferred) return one->address;
  return candidates.front()->address;
}

Result<std::vector<InterfaceAddress>> interface_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return system_error(errno, "listing the network interfaces");
  std::vector<InterfaceAddress> out;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family || (one->ifa_flags & IFF_UP) == 0) continue;
      const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      char text[NI_MAXHOST];
      if (getnameinfo(one->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
      const std::string address = text;
      if (address.find('%') != std::string::npos) continue;
      out.push_back({one->ifa_name, address, (one->ifa_flags & IFF_LOOPBACK) != 0});
    }
  }
  freeifaddrs(first);
  return out;
}

}  // namespace rondo

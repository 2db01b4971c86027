// The card that ranks exchange when a Fabric is made: who and where they are. A value; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "transport/wire.h"

namespace rondo {

inline void put_text(std::string& out, std::string_view text) {
  put<uint32_t>(out, static_cast<uint32_t>(text.size()));
  out += text;
}

inline std::string get_text(WireReader& reader) { return reader.get_string(reader.get<uint32_t>()); }

// What a rank tells all others of itself: the first part at the rendezvous, its transports over the control links.
struct Card {
  std::string host_id;
  uint64_t pid = 0;
  std::string cpus;                                             // the affinity mask, a bit a processor, lowest first
  uint32_t cpu_quota = 0;                                       // whole processors that the cgroup grants; 0: no limit
  std::string local_control, remote_control;                    // addresses of the control plane
  std::string machine;                                          // of rank 0: what its measured choices hold for
  std::string tuning, tuning_fault;                             // of rank 0: its table, or why it has none
  std::vector<std::pair<std::string, std::string>> transports;  // name, address

  std::string encode() const {
    std::string out;
    put_text(out, host_id);
    put<uint64_t>(out, pid);
    put_text(out, cpus);
    put<uint32_t>(out, cpu_quota);
    put_text(out, local_control);
    put_text(out, remote_control);
    put_text(out, machine);
    put_text(out, tuning);
    put_text(out, tuning_fault);
    return out;
  }
  static Result<Card> decode(std::string_view bytes, Rank from) {
    WireReader reader(bytes_of(bytes));
    Card card;
    card.host_id = get_text(reader);
    card.pid = reader.get<uint64_t>();
    card.cpus = get_text(reader);
    card.cpu_quota = reader.get<uint32_t>();
    card.local_control = get_text(reader);
    card.remote_control = get_text(reader);
    card.machine = get_text(reader);
    card.tuning = get_text(reader);
    card.tuning_fault = get_text(reader);
    if (!reader.ok()) return fail(Code::internal, "rank {} sent a broken card of {} bytes", from, bytes.size());
    return card;
  }
  Status decode_transports(std::string_view bytes, Rank from) {
    WireReader reader(bytes_of(bytes));
    const uint32_t count = reader.get<uint32_t>();
    for (uint32_t i = 0; i < count && reader.ok(); ++i) {
      std::string name = get_text(reader);
      transports.emplace_back(std::move(name), get_text(reader));
    }
    if (!reader.ok()) return fail(Code::internal, "rank {} sent broken addresses of {} bytes", from, bytes.size());
    return {};
  }
  const std::string* address_of(std::string_view name) const {
    for (const auto& [transport, address] : transports)
      if (transport == name) return &address;
    return nullptr;
  }
};

}  // namespace rondo

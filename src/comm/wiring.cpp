#include "comm/wiring.h"

#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace rondo {
namespace {

Result<std::unique_ptr<Transport>> shm(const TransportSettings& settings) {
  ShmOptions options;
  options.identity = settings.identity;
  options.segment_bytes = static_cast<size_t>(settings.config->bytes(Key::shm_bytes));
  return make_shm(options);
}

Result<std::unique_ptr<Transport>> tcp(const TransportSettings& settings) {
  TcpOptions options;
  options.identity = settings.identity;
  options.host = settings.bind_host;
  const PortRange ports = settings.config->ports(Key::port_range);
  options.port_first = ports.first;
  options.port_last = ports.last;
  options.liveness_ms = settings.config->milliseconds(Key::liveness_ms);
  return make_tcp(options);
}

}  // namespace

std::span<const TransportKind> transport_kinds() {
  static const TransportKind kinds[] = {
      {"shm", true, shm},
      {"tcp", false, tcp},
  };
  return kinds;
}

}  // namespace rondo

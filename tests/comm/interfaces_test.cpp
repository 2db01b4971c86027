#include "comm/interfaces.h"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace rondo;

namespace {

const std::vector<InterfaceAddress> kHost = {{"lo", "127.0.0.1", true}, {"docker0", "172.17.0.1"}, {"eth0", "10.0.0.7"},
                                             {"eth1", "10.1.0.7"},      {"eth10", "192.168.3.7"},  {"lo", "::1", true},
                                             {"eth0", "2001:db8::7"}};

std::string chosen(const char* spec, const char* preferred = "") {
  return choose_address(spec, kHost, preferred).value();
}

std::string refused(const char* spec) {
  const auto result = choose_address(spec, kHost, "");
  REQUIRE_FALSE(result.ok());
  CHECK(result.status().code() == Code::invalid);
  return result.status().text();
}

}  // namespace

TEST_CASE("interfaces: names are exact, prefixes and blocks are marked as such") {
  CHECK(chosen("eth1") == "10.1.0.7");
  CHECK(chosen("eth1*") == "10.1.0.7");
  CHECK(chosen("lo") == "127.0.0.1");
  CHECK(chosen("192.168.0.0/16") == "192.168.3.7");
  CHECK(chosen("10.1.0.7/32") == "10.1.0.7");
  CHECK(chosen("2001:db8::/32") == "2001:db8::7");
  CHECK(chosen("0.0.0.0/0") == "127.0.0.1");
}

TEST_CASE("interfaces: the earliest item wins, what is absent here is passed over") {
  CHECK(chosen("ib0,eth10,eth0") == "192.168.3.7");
  CHECK(chosen("eth10,eth0") == "192.168.3.7");
}

TEST_CASE("interfaces: exclusions alone leave the rest, without loopback") {
  CHECK(chosen("^docker0") == "10.0.0.7");
  CHECK(chosen("^lo,^docker*") == "10.0.0.7");
  CHECK(chosen("eth*,^eth0") == "10.1.0.7");
  CHECK(chosen("^172.16.0.0/12,^10.0.0.0/16") == "10.1.0.7");
}

TEST_CASE("interfaces: the address towards the rendezvous is taken when it is allowed") {
  CHECK(chosen("eth*", "10.1.0.7") == "10.1.0.7");
  CHECK(chosen("^docker0", "172.17.0.1") == "10.0.0.7");
}

TEST_CASE("interfaces: a list that allows nothing names what there is") {
  CHECK(refused("ib0") ==
        "RONDO_INTERFACE=ib0: allows no interface of this host; there are lo 127.0.0.1, docker0 172.17.0.1, "
        "eth0 10.0.0.7, eth1 10.1.0.7, eth10 192.168.3.7, lo ::1, eth0 2001:db8::7");
  CHECK(refused("eth1,^10.0.0.0/8").find("allows no interface") != std::string::npos);
}

TEST_CASE("interfaces: malformed items are refused") {
  const char* wrong =
      GENERATE("10.0.0.0/33", "10.0.0/8", "x/8", "10.0.0.0/", "10.0.0.0/-1", "^", ",", "2001:db8::/129");
  CAPTURE(wrong);
  CHECK(refused(wrong).rfind("RONDO_INTERFACE: ", 0) == 0);
}

TEST_CASE("interfaces: this host has a loopback interface") {
  const auto present = interface_addresses();
  REQUIRE(present.ok());
  CHECK(std::any_of(present.value().begin(), present.value().end(),
                    [](const InterfaceAddress& one) { return one.loopback && one.address == "127.0.0.1"; }));
}

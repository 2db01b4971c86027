// Little-endian fields in byte strings: how the handshake, the rendezvous and the control plane lay out their messages.
// The reader is total: it never looks past its span, and after the first field that does not fit every further one
// reads as zero and ok() is false.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace rondo {

using Bytes = std::span<const uint8_t>;

inline Bytes bytes_of(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

template <class T>
void put(std::string& out, T value) {
  static_assert(std::is_unsigned_v<T>);
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}
inline void put_bytes(std::string& out, Bytes bytes) {
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

class WireReader {
 public:
  explicit WireReader(Bytes bytes) : rest_(bytes) {}

  template <class T>
  T get() {
    static_assert(std::is_unsigned_v<T>);
    const Bytes field = take(sizeof(T));
    T value = 0;
    for (size_t i = 0; i < field.size(); ++i) value = static_cast<T>(value | (static_cast<T>(field[i]) << (8 * i)));
    return value;
  }
  template <class Array>
  void get_array(Array& out) {
    const Bytes field = take(out.size());
    std::fill(out.begin(), out.end(), 0);
    std::copy(field.begin(), field.end(), out.begin());
  }
  std::string get_string(size_t bytes) {
    const Bytes field = take(bytes);
    return std::string(reinterpret_cast<const char*>(field.data()), field.size());
  }

  bool ok() const { return ok_; }
  size_t left() const { return rest_.size(); }

 private:
  // Empty when fewer than `bytes` are left.
  Bytes take(size_t bytes) {
    if (!ok_ || bytes > rest_.size()) {
      ok_ = false;
      return {};
    }
    const Bytes field = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return field;
  }

  Bytes rest_;
  bool ok_ = true;
};

}  // namespace rondo

// Puts the tables together and chooses among them by what the CPU that runs can do.
#include "kernels/tables.h"

#include "base/check.h"
#include "hwy/targets.h"

namespace rondo::kernels {
namespace {

struct IsaInfo {
  Isa isa;
  int64_t target;  // Highway's bit for it
  std::string_view name;
};

// From the slowest to the fastest.
constexpr IsaInfo kIsas[kIsaCount] = {
    {Isa::sse4, HWY_SSE4, "sse4"}, {Isa::avx2, HWY_AVX2, "avx2"}, {Isa::avx512, HWY_AVX3, "avx512"}};

void check_full(const Table& table) {
  RONDO_CHECK(table.copy != nullptr && table.copy_stream != nullptr);
  for (size_t dtype = 0; dtype < kDTypeCount; ++dtype) {
    RONDO_CHECK((table.scale[dtype] != nullptr) == info(static_cast<DType>(dtype)).floating);
    for (size_t op = 0; op < kRedOpCount; ++op) {
      const bool defined = is_defined(static_cast<DType>(dtype), static_cast<RedOp>(op));
      RONDO_CHECK((table.reduce[dtype][op] != nullptr) == defined);
    }
  }
}

Table make_reference() {
  Table table = {};
  table.isa = "reference";
  add_reference_rows(table);
  check_full(table);
  return table;
}

std::vector<Table> make_vector_tables() {
  std::vector<Table> tables;
  for (const IsaInfo& info : kIsas) {
    if ((hwy::SupportedTargets() & info.target) == 0) continue;
    Table table = {};
    table.isa = info.name;
    const bool built = add_float_rows(info.isa, table) && add_narrow_rows(info.isa, table) &&
                       add_integer_rows(info.isa, table) && add_order_rows(info.isa, table) &&
                       add_copies(info.isa, table);
    if (!built) continue;
    check_full(table);
    tables.push_back(table);
  }
  return tables;
}

const std::vector<Table>& vector_tables() {
  static const std::vector<Table> tables = make_vector_tables();
  return tables;
}

}  // namespace

const Table& reference() {
  static const Table table = make_reference();
  return table;
}

const Table& best() { return vector_tables().empty() ? reference() : vector_tables().back(); }

std::vector<const Table*> usable() {
  std::vector<const Table*> tables = {&reference()};
  for (const Table& table : vector_tables()) tables.push_back(&table);
  return tables;
}

}  // namespace rondo::kernels

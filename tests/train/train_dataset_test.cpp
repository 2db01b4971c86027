// The idx reader against files that are truncated, oversized, foreign or damaged, and the batches made from a set.
#include <unistd.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "train/dataset.h"

using namespace rondo::train;

namespace {

std::vector<uint8_t> idx(std::vector<uint32_t> dims, std::vector<uint8_t> data) {
  std::vector<uint8_t> file = {0, 0, 8, static_cast<uint8_t>(dims.size())};
  for (const uint32_t dim : dims) {
    for (const int shift : {24, 16, 8, 0}) file.push_back(static_cast<uint8_t>(dim >> shift));
  }
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

std::string parse_text(const std::vector<uint8_t>& file, size_t dimensions) {
  return parse_idx(file, dimensions, "f").status().text();
}

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("rondo-train-test-" + std::to_string(getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string text() const { return path_.string(); }

  void write(const std::string& name, const std::vector<uint8_t>& bytes) const {
    std::ofstream file(path(name), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  void write_gzip(const std::string& name, const std::vector<uint8_t>& bytes) const {
    gzFile file = gzopen(path(name).c_str(), "wb");
    REQUIRE(file != nullptr);
    REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) == static_cast<int>(bytes.size()));
    REQUIRE(gzclose(file) == Z_OK);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("idx: a well-formed file gives its dimensions and bytes") {
  const Result<IdxArray> array = parse_idx(idx({2, 1, 3}, {1, 2, 3, 4, 5, 6}), 3, "f");
  REQUIRE(array.ok());
  CHECK(array.value().dims == std::vector<size_t>{2, 1, 3});
  CHECK(array.value().bytes == std::vector<uint8_t>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("idx: every truncation of a file is refused") {
  const std::vector<uint8_t> whole = idx({2, 1, 3}, {1, 2, 3, 4, 5, 6});
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const std::vector<uint8_t> part(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes));
    const Result<IdxArray> array = parse_idx(part, 3, "f");
    INFO(bytes << " bytes");
    REQUIRE_FALSE(array.ok());
    CHECK(array.status().fault() == Fault::dataset);
  }
}

TEST_CASE("idx: what is wrong with a file is said with its numbers") {
  CHECK(parse_text({}, 1) == "dataset: f: 0 bytes, too short for an idx header");
  CHECK(parse_text({'P', 'K', 8, 1, 0, 0, 0, 0}, 1) == "dataset: f: not an idx file, it starts with 0x50 0x4b");
  CHECK(parse_text({0, 0, 13, 1, 0, 0, 0, 1, 7}, 1) == "dataset: f: element type 0x0d, expected 0x08");
  CHECK(parse_text(idx({1, 1}, {7}), 1) == "dataset: f: 2 dimensions, expected 1");
  CHECK(parse_text({0, 0, 8, 3, 0, 0}, 3) == "dataset: f: 6 bytes, its header alone has 16");
  CHECK(parse_text(idx({3}, {7}), 1) == "dataset: f: 1 bytes of data, its header announces 3");
  CHECK(parse_text(idx({1}, {7, 8}), 1) == "dataset: f: 2 bytes of data, its header announces 1");
  CHECK(parse_text(idx({0}, {}), 1) == "dataset: f: dimension 0 is 0");
}

TEST_CASE("idx: dimensions whose product overflows are refused before anything is allocated") {
  CHECK(parse_text(idx({0xffffffff, 0xffffffff, 0xffffffff}, {1}), 3) ==
        "dataset: f: its dimensions exceed 268435456 bytes");
  CHECK(parse_text(idx({0x10000, 0x10000, 0x10000}, {}), 3) == "dataset: f: its dimensions exceed 268435456 bytes");
}

TEST_CASE("read file: gzip and plain files give the same content, and a limit holds for both") {
  const Folder folder;
  std::vector<uint8_t> content(100000);
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<uint8_t>(i * i >> 3);
  folder.write("plain", content);
  folder.write_gzip("packed", content);
  for (const char* name : {"plain", "packed"}) {
    const Result<std::vector<uint8_t>> read = read_file(folder.path(name), content.size());
    REQUIRE(read.ok());
    CHECK(read.value() == content);
    CHECK(read_file(folder.path(name), content.size() - 1).status().text() ==
          "dataset: " + folder.path(name) + ": its content exceeds 99999 bytes");
  }
}

TEST_CASE("read file: a gzip file that is cut short or damaged is refused, not read as a shorter one") {
  const Folder folder;
  std::vector<uint8_t> content(50000);
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  folder.write_gzip("whole", content);
  std::ifstream whole(folder.path("whole"), std::ios::binary);
  std::vector<uint8_t> packed((std::istreambuf_iterator<char>(whole)), std::istreambuf_iterator<char>());
  folder.write("cut", {packed.begin(), packed.begin() + static_cast<ptrdiff_t>(packed.size() / 2)});
  CHECK_FALSE(read_file(folder.path("cut"), 1 << 20).ok());
  folder.write("tail", {packed.begin(), packed.end() - 3});
  CHECK_FALSE(read_file(folder.path("tail"), 1 << 20).ok());
  packed[packed.size() / 2] ^= 0xff;
  folder.write("damaged", packed);
  CHECK_FALSE(read_file(folder.path("damaged"), 1 << 20).ok());
}

TEST_CASE("read file: a missing file and a folder are refused with the system's words") {
  const Folder folder;
  CHECK(read_file(folder.path("none"), 10).status().text() ==
        "dataset: " + folder.path("none") + ": No such file or directory (errno 2)");
  CHECK_FALSE(read_file(folder.text(), 10).ok());
}

TEST_CASE("join: counts that differ and labels out of range are refused") {
  const auto joined = [](std::vector<size_t> image_dims, std::vector<uint8_t> labels) {
    const size_t images = image_dims[0];
    IdxArray pictures{std::move(image_dims), std::vector<uint8_t>(images * 4)};
    const size_t count = labels.size();
    return join_images(std::move(pictures), {{count}, std::move(labels)}, 10, "set").status().text();
  };
  CHECK(joined({2, 2, 2}, {0, 9}).empty());
  CHECK(joined({2, 2, 2}, {0, 1, 2}) == "dataset: set: 2 images but 3 labels");
  CHECK(joined({2, 2, 2}, {0, 10}) == "dataset: set: label 10 of image 1 is not below 10");
  CHECK(joined({2, 4}, {0, 1}) == "dataset: set: images of 2 dimensions and labels of 1, expected 3 and 1");
}

TEST_CASE("fashion-mnist: a missing folder names the package to install") {
  const Result<Dataset> data = load_fashion_mnist("/no/such/folder");
  REQUIRE_FALSE(data.ok());
  CHECK(data.status().fault() == Fault::dataset);
  CHECK(data.status().text().find("apt-get install dataset-fashion-mnist") != std::string::npos);
}

TEST_CASE("fashion-mnist: four good files load, plain or gzip, and one missing or odd file is named") {
  const Folder folder;
  folder.write("train-images-idx3-ubyte", idx({2, 2, 2}, {0, 255, 0, 255, 255, 0, 255, 0}));
  folder.write_gzip("train-labels-idx1-ubyte.gz", idx({2}, {4, 9}));
  folder.write_gzip("t10k-images-idx3-ubyte.gz", idx({1, 2, 2}, {0, 0, 0, 51}));
  CHECK(load_fashion_mnist(folder.text()).status().text() ==
        "dataset: " + folder.path("t10k-labels-idx1-ubyte") + ": No such file or directory (errno 2)");
  folder.write("t10k-labels-idx1-ubyte", idx({1}, {0}));
  Result<Dataset> data = load_fashion_mnist(folder.text());
  REQUIRE(data.ok());
  CHECK(data->train.extent == Extent{1, 2, 2});
  CHECK(data->mean == 0.5f);
  CHECK(data->deviation == 0.5f);

  Tensor batch;
  std::vector<uint8_t> labels;
  const std::vector<uint32_t> chosen = {1, 0, 1};
  gather_batch(data.value(), data->train, chosen, batch, labels);
  CHECK(labels == std::vector<uint8_t>{9, 4, 9});
  CHECK(std::vector<float>(batch.row(1).begin(), batch.row(1).end()) == std::vector<float>{-1, 1, -1, 1});
  CHECK(batch.shape() == std::vector<size_t>{3, 4});

  folder.write_gzip("t10k-images-idx3-ubyte.gz", idx({1, 2, 3}, {0, 0, 0, 51, 0, 0}));
  CHECK(load_fashion_mnist(folder.text()).status().text() ==
        "dataset: " + folder.text() + ": training and test images differ in size");
}

TEST_CASE("synthetic: the set says what it is and is the same for the same seed") {
  const Dataset data = make_synthetic(100, 3);
  CHECK(data.description.find("SYNTHETIC") == 0);
  CHECK(data.train.count == 100);
  CHECK(data.test.count == 20);
  CHECK(data.train.pixels == make_synthetic(100, 3).train.pixels);
  CHECK(data.train.pixels != make_synthetic(100, 4).train.pixels);
}

#include "perf/plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace rondo::perf {
namespace {

constexpr double kWidth = 1180, kHeight = 520;
constexpr double kPanelWidth = 470, kPanelHeight = 330, kTop = 70;
constexpr std::array kLeft = {80.0, 660.0};
// Told apart also by those who do not see red and green as different.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666"};

struct Point {
  double bytes, latency_us, p99_us, bus_gbs;
};
struct Series {
  std::string name;
  std::vector<Point> points;
};

// A logarithmic axis over whole powers of its base.
struct Axis {
  double base, low, high;  // exponents
  double at(double value) const { return (std::log(value) / std::log(base) - low) / std::max(high - low, 1.0); }
};

Axis axis_over(double base, double least, double most) {
  const double low = std::floor(std::log(least) / std::log(base));
  const double high = std::ceil(std::log(most) / std::log(base));
  return {base, low, std::max(high, low + 1)};
}

// One series for each collective, type, operator and form, in the order of the rows.
std::vector<Series> series_of(const std::vector<Row>& rows) {
  std::vector<Series> list;
  for (const Row& row : rows) {
    for (const Timing* timing : {&row.out_of_place, &row.in_place}) {
      const auto bytes = static_cast<double>(call_bytes(row.call));
      if (!timing->measured || bytes <= 0 || timing->p50_us <= 0) continue;
      const KindInfo& kind = info(row.call.kind);
      const std::string name = fmt::format("{} {}{}{}{}", kind.name, rondo_dtype_name(row.call.dtype),
                                           kind.reduces ? fmt::format(" {}", rondo_redop_name(row.call.redop)) : "",
                                           kind.rooted ? fmt::format(" root {}", row.call.root) : "",
                                           timing == &row.in_place ? ", in place" : "");
      auto found = std::find_if(list.begin(), list.end(), [&](const Series& one) { return one.name == name; });
      if (found == list.end()) found = list.insert(list.end(), Series{name, {}});
      found->points.push_back({bytes, timing->p50_us, timing->p99_us, timing->bus_gbs});
    }
  }
  return list;
}

std::string bytes_label(double exponent) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  const auto whole = static_cast<size_t>(std::max(exponent, 0.0));
  const size_t unit = std::min<size_t>(whole / 10, kUnits.size() - 1);
  return fmt::format("{} {}", uint64_t{1} << (whole - unit * 10), kUnits[unit]);
}

std::string text_at(double x, double y, const char* anchor, const std::string& text, int size = 12) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n", x, y, anchor,
                     size, text);
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2, y2,
                     colour);
}

// The frame, the grid, its labels and the title of one panel.
std::string panel(double left, const Axis& x, const Axis& y, const std::string& title) {
  std::string svg = text_at(left + kPanelWidth / 2, kTop - 12, "middle", title, 14);
  const double bottom = kTop + kPanelHeight;
  const auto steps = static_cast<int>(x.high - x.low);
  const int stride = std::max(1, (steps + 7) / 8);
  for (int step = 0; step <= steps; step += stride) {
    const double at = left + kPanelWidth * step / steps;
    svg += line(at, kTop, at, bottom, "#e0e0e0");
    svg += text_at(at, bottom + 18, "middle", bytes_label(x.low + step), 11);
  }
  for (int power = static_cast<int>(y.low); power <= static_cast<int>(y.high); ++power) {
    const double at = bottom - kPanelHeight * (power - y.low) / (y.high - y.low);
    svg += line(left, at, left + kPanelWidth, at, "#e0e0e0");
    svg += text_at(left - 8, at + 4, "end", fmt::format("{:g}", std::pow(10.0, power)), 11);
  }
  svg += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"#404040\"/>\n", left,
      kTop, kPanelWidth, kPanelHeight);
  return svg + text_at(left + kPanelWidth / 2, bottom + 38, "middle", "size");
}

std::string curve(double left, const Axis& x, const Axis& y, const Series& series, double Point::*value,
                  const char* style) {
  std::string path, dots;
  for (const Point& point : series.points) {
    if (point.*value <= 0) continue;
    const double across = left + kPanelWidth * x.at(point.bytes);
    const double up = kTop + kPanelHeight * (1 - y.at(point.*value));
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", across, up);
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" stroke=\"none\"/>\n", across, up);
  }
  return fmt::format("<g {}><polyline points=\"{}\" fill=\"none\"/>\n{}</g>\n", style, path, dots);
}

// The least and most of one value over all series; what is not positive has no place on a logarithmic axis.
Axis axis_for(const std::vector<Series>& list, double base, std::initializer_list<double Point::*> values) {
  double least = HUGE_VAL, most = 0;
  for (const Series& series : list) {
    for (const Point& point : series.points) {
      for (double Point::*value : values) {
        if (point.*value <= 0) continue;
        least = std::min(least, point.*value);
        most = std::max(most, point.*value);
      }
    }
  }
  return most > 0 ? axis_over(base, least, most) : Axis{base, 0, 1};
}

}  // namespace

std::string svg_text(const Summary& summary, const std::vector<Row>& rows) {
  const std::vector<Series> list = series_of(rows);
  const double legend_rows = std::ceil(static_cast<double>(list.size()) / 2);
  const double height = kHeight + 20 * std::max(legend_rows - 2, 0.0);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, height);
  svg += text_at(kWidth / 2, 26, "middle",
                 fmt::format("rondo {}, {} rank{} ({} on this host), buffers {}", summary.version, summary.world,
                             summary.world == 1 ? "" : "s", summary.local_world, summary.buffers),
                 16);
  const Axis x = axis_for(list, 2, {&Point::bytes});
  const Axis latency = axis_for(list, 10, {&Point::latency_us, &Point::p99_us});
  const Axis bandwidth = axis_for(list, 10, {&Point::bus_gbs});
  svg += panel(kLeft[0], x, latency, "latency, us (line: median, dashed: 99th percentile)");
  svg += panel(kLeft[1], x, bandwidth, "bus bandwidth, 1e9 B/s (from the median)");
  for (size_t index = 0; index < list.size(); ++index) {
    const char* colour = kColours[index % kColours.size()];
    const std::string solid = fmt::format("stroke=\"{0}\" fill=\"{0}\" stroke-width=\"1.8\"", colour);
    const std::string dashed =
        fmt::format("stroke=\"{0}\" fill=\"{0}\" stroke-dasharray=\"4 4\" opacity=\"0.55\"", colour);
    svg += curve(kLeft[0], x, latency, list[index], &Point::p99_us, dashed.c_str());
    svg += curve(kLeft[0], x, latency, list[index], &Point::latency_us, solid.c_str());
    svg += curve(kLeft[1], x, bandwidth, list[index], &Point::bus_gbs, solid.c_str());
    const double left = kLeft[index % 2], top = kTop + kPanelHeight + 66 + 20 * static_cast<double>(index / 2);
    svg +=
        fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"18\" height=\"4\" fill=\"{}\"/>\n", left, top - 6, colour);
    svg += text_at(left + 26, top, "start", list[index].name);
  }
  return svg + "</svg>\n";
}

}  // namespace rondo::perf

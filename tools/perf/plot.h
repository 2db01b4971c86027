// The plot of a run as an SVG picture: latency and bus bandwidth against size, both axes logarithmic. Pure.
#pragma once

#include <string>
#include <vector>

#include "perf/report.h"

namespace rondo::perf {

std::string svg_text(const Summary& summary, const std::vector<Row>& rows);

}  // namespace rondo::perf

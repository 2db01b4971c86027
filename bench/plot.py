"""SVG charts of bench/compare: time and bandwidth against size, both axes logarithmic. No packages needed."""
import math

COLOURS = {"rondo": "#c1121f", "rondo-alloc": "#f08a24", "openmpi": "#1d5fa8", "mpich": "#3a9d5d", "gloo": "#7b4ea3"}
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 460, 340, 62, 34, 12, 46


def short(value: float) -> str:
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def chart(x0: float, title: str, unit: str, series: dict) -> str:
    """One chart at x0; series: {engine: [(bytes, value)]}, values above 0."""
    points = [p for line in series.values() for p in line]
    low_x, high_x = math.log2(min(p[0] for p in points)), math.log2(max(p[0] for p in points))
    low_y, high_y = math.floor(math.log10(min(p[1] for p in points))), math.ceil(math.log10(max(p[1] for p in points)))
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    at_x = lambda v: x0 + LEFT + wide * (math.log2(v) - low_x) / max(high_x - low_x, 1)
    at_y = lambda v: TOP + tall * (1 - (math.log10(v) - low_y) / max(high_y - low_y, 1))
    out = [f'<text x="{x0 + LEFT}" y="20" font-size="13" font-weight="bold">{title}</text>']
    for power in range(low_y, high_y + 1):
        y = at_y(10.0 ** power)
        out.append(f'<line x1="{x0 + LEFT}" y1="{y:.1f}" x2="{x0 + WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{x0 + LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0 ** power:g}</text>')
    for size in sorted({p[0] for p in points}):
        x = at_x(size)
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{TOP + tall}" stroke="#eee"/>')
        out.append(f'<text x="{x:.1f}" y="{TOP + tall + 16}" text-anchor="middle">{short(size)}</text>')
    out.append(f'<text x="{x0 + LEFT + wide / 2}" y="{HEIGHT - 10}" text-anchor="middle">bytes</text>')
    out.append(f'<text x="{x0 + 14}" y="{TOP - 8}">{unit}</text>')
    for engine, line in series.items():
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in line)
        dash = ' stroke-dasharray="5 4"' if engine == "limit" else ""
        colour = COLOURS.get(engine, "#000")
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>')
    return "\n".join(out)


def write(path, results: list) -> None:
    """results: what compare() returned, one row of charts for each number of ranks."""
    rows = []
    for row, result in enumerate(results):
        engines = list(result["rows"][0]["us"])
        time = {e: [(r["bytes"], r["us"][e]) for r in result["rows"]] for e in engines}
        speed = {e: [(x, x / (us * 1e-6) / 1e9) for x, us in line] for e, line in time.items()}
        rows.append(f'<g transform="translate(0,{row * HEIGHT})">'
                    + chart(0, f'allreduce, {result["ranks"]} ranks: time', "us", time)
                    + chart(WIDTH, "bandwidth (bytes / time)", "GB/s", speed) + "</g>")
    legend = "".join(f'<text x="{LEFT + 92 * i}" y="{HEIGHT * len(rows) + 14}" fill="{COLOURS.get(e, "#000")}">{e}</text>'
                     for i, e in enumerate(results[0]["rows"][0]["us"]))
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{HEIGHT * len(rows) + 26}" '
                    f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
                    + "".join(rows) + legend + "</svg>\n")

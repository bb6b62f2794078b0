// Makes pictures of courses charts (uPlot) that can be zoomed and read, by mouse and by keys, from the same view as JSON.
// What lies over a course (incidents, changes, what is ahead, gaps) is taken from its SVG, which stays where this fails.
{
  const lang = document.documentElement.lang, UNITS = [[86_400e3, "day"], [3_600e3, "hour"], [60e3, "minute"], [1e3, "second"], [0, "millisecond"]], seconds = (moment) => Date.parse(moment) / 1e3;
  const clock = (at) => new Date(at * 1e3).toLocaleString("sv", { dateStyle: "short", timeStyle: "short" }); // 2026-11-26 04:38
  // Lines of an axis lie at round numbers: of durations in their own unit, of counts never at parts of one.
  const ROUND = [...Array(15).keys()].flatMap((zeros) => [1, 2, 5].map((one) => one * 10 ** zeros)), MINUTES = [1, 2, 5, 10, 15, 30];
  const STEPS = {
    _ms: [...ROUND.filter((one) => one < 1e3), ...[1e3, 60e3].flatMap((unit) => MINUTES.map((one) => one * unit)), ...[1, 2, 3, 6, 12].map((one) => one * 3_600e3), ...ROUND.map((one) => one * 86_400e3)],
    tps: [.1, .2, .5, ...ROUND],
  };
  let charts = [], zoom = null, whole = "", held = -1; // the chart that has the focus
  const said = (figure, value) => {
    if (!figure.endsWith("_ms") || value === 0) return value.toLocaleString(lang, { maximumFractionDigits: figure.endsWith("_tps") ? 1 : 0 });
    const [size, unit] = UNITS.find(([least]) => value >= least) ?? UNITS.at(-1);
    return (value / (size || 1)).toLocaleString(lang, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: 1 });
  };
  // Give what the SVG has over the course, in the chart's own scales.
  const layers = (svg, since, until) => {
    const box = svg.viewBox.baseVal, width = Number(svg.dataset.width), top = Number(svg.dataset.top);
    const at = (x) => since + (x / width) * (until - since), level = (y) => top * (1 - y / box.height), number = (element, name) => Number(element.getAttribute(name));
    return [...svg.querySelectorAll("rect:not(.hatch), .outlook polygon, .usual, .kept")].map((element) => {
      const style = getComputedStyle(element.getAttribute("fill") ? svg.querySelector(".hatch") : element), x = number(element, "x");
      const pairs = element.matches("line") ? `0,${number(element, "y1")} ${box.width},${number(element, "y1")}` : element.getAttribute("points");
      return {
        from: at(x), to: at(x + number(element, "width")), color: element.matches("line") ? style.stroke : style.fill, alpha: Number(style.opacity),
        corners: pairs?.split(" ").map((pair) => pair.split(",")).map(([cx, cy]) => [at(cx), level(cy)]),
        glyph: element.parentNode.dataset.glyph, text: (element.querySelector("title") ?? element.parentNode.querySelector(":scope > title"))?.textContent,
      };
    });
  };
  const paint = (chart, over) => {
    const { ctx, bbox } = chart;
    ctx.save(); ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip(); ctx.textAlign = "center";
    for (const { from, to, color, alpha, corners, glyph } of over) {
      const x = (at) => chart.valToPos(at, "x", true), left = x(from);
      ctx.globalAlpha = alpha; ctx.fillStyle = ctx.strokeStyle = color; ctx.beginPath();
      if (corners) corners.forEach(([at, level]) => ctx.lineTo(x(at), chart.valToPos(level, "y", true)));
      else ctx.rect(left, bbox.top, Math.max(x(to) - left, devicePixelRatio), bbox.height);
      corners?.length === 2 ? ctx.stroke() : ctx.fill();
      if (glyph) ctx.fillText(glyph, left, bbox.top + 12 * devicePixelRatio);
    }
    ctx.restore();
  };
  const chartOf = (course, figure, place) => {
    const svg = figure.querySelector("svg"), target = document.createElement("div"), reading = document.createElement("output"), tall = svg.clientHeight;
    const since = seconds(svg.dataset.since), until = seconds(svg.dataset.until), over = layers(svg, since, until), name = course.figure;
    const end = since + (svg.viewBox.baseVal.width / Number(svg.dataset.width)) * (until - since);
    const xs = [...course.points.map((point) => seconds(point.at) + course.step_ms / 2e3), end];
    const data = [xs, ...["last", "least", "greatest"].map((key) => [...course.points.map((point) => point[key]), null])];
    const ink = getComputedStyle(figure.querySelector("figcaption")).color, line = getComputedStyle(document.querySelector("main a")).color;
    const axis = { stroke: ink, grid: { stroke: ink, width: 0.15 }, ticks: { show: false }, font: "12px system-ui" };
    const read = (chart, at = chart.cursor.idx) => {
      if (at == null) return;
      const here = over.filter(({ from, to, corners }) => !corners && from <= xs[at] + course.step_ms / 2e3 && to >= xs[at] - course.step_ms / 2e3);
      const point = course.points[at], words = point?.last == null ? "{at}" : figure.dataset.reading;
      const told = words.replace(/{(\w+)}/g, (_, key) => (key === "at" ? clock(xs[at]) : said(name, point[key])));
      reading.textContent = [told, ...new Set(here.map(({ text }) => text).filter(Boolean))].join("; ");
    };
    Object.assign(target, { className: "chart", tabIndex: 0, role: "application" }); reading.className = "soft";
    target.setAttribute("aria-label", `${figure.querySelector("figcaption").textContent.trim()}. ${figure.dataset.keys}`);
    reading.textContent = place ? "" : figure.dataset.keys; // said once for all of a page
    figure.classList.add("charted"); figure.append(target, reading);
    const chart = new uPlot({
      width: target.clientWidth, height: tall + 50, legend: { show: false }, cursor: { y: false, drag: { x: true, y: false } },
      scales: { x: { range: (_, from, to) => (from === xs[0] ? [since, to] : [from, to]) }, y: { range: (one, from, to) => [Math.min(0, from ?? 0), Math.max(to ?? 0, one.scales.x.min > since ? 0 : svg.dataset.top) || 1] } },
      series: [{}, { stroke: line, width: 1.5, points: { show: false } }, { points: { show: false } }, { points: { show: false } }],
      bands: [{ series: [3, 2], fill: line.replace("rgb(", "rgba(").replace(")", ", .25)") }],
      axes: [{ ...axis, size: 30, values: (_, at) => at.map((one) => clock(one).split(" ")[end - since > 129_600 ? 0 : 1]) },
        { ...axis, size: 70, incrs: STEPS[name.slice(-3)] ?? ROUND, values: (_, at) => at.map((one) => said(name, one)) }],
      hooks: {
        drawClear: [(one) => paint(one, over)],
        setCursor: [(one) => { // all charts of a page are read at one moment
          const { idx, left } = one.cursor;
          read(one);
          charts.forEach((other) => other !== one && other.cursor.idx !== idx && other.setCursor({ left, top: idx == null ? -10 : 0 }));
        }],
        setScale: [(one, key) => {
          const { min, max } = one.scales.x;
          if (key !== "x" || (zoom?.[0] === min && zoom?.[1] === max)) return;
          zoom = [min, max];
          charts.forEach((other) => other !== one && other.setScale("x", { min, max }));
        }] } }, data, target);
    target.addEventListener("keydown", (event) => {
      const { min, max } = chart.scales.x, at = chart.cursor.idx ?? xs.findLastIndex((x) => x <= max), half = (max - min) / 2;
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key], wide = { "+": half / 2, "-": half * 2 }[event.key];
      if (steps) chart.setCursor({ left: chart.valToPos(xs[Math.min(Math.max(at + steps, 0), xs.length - 1)], "x"), top: 0 });
      else if (wide) chart.setScale("x", { min: Math.max(xs[at] - wide, since), max: Math.min(xs[at] + wide, end) });
      else if (event.key === "0") chart.setScale("x", { min: since, max: end });
      if (steps || wide || event.key === "0") event.preventDefault();
    });
    return chart;
  };
  const draw = async () => {
    const address = new URL(location);
    address.searchParams.set("format", "json");
    const answer = await fetch(address);
    if (!answer.ok) return; // the SVG stays
    const view = await answer.json(), kept = zoom && whole !== String(zoom) ? zoom : null;
    document.querySelectorAll(".chart, .chart + output").forEach((one) => one.remove());
    charts.forEach((chart) => chart.destroy()); charts = []; zoom = null;
    charts = view.courses.map((course, place) => chartOf(course, document.querySelector(`figure[data-figure=${course.figure}]`), place));
    if (held >= 0) charts[held].root.parentNode.focus({ preventScroll: true });
    held = -1;
    queueMicrotask(() => { whole = String(zoom); if (kept) charts[0].setScale("x", { min: kept[0], max: kept[1] }); });
  };
  document.addEventListener("htmx:oobBeforeSwap", () => { held = charts.findIndex((one) => one.root.parentNode === document.activeElement); });
  document.addEventListener("htmx:oobAfterSwap", ({ target }) => target.querySelector("figure") && draw()); // of the view, not of what asked
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", () => charts.forEach((chart) => chart.setSize({ width: chart.root.parentNode.clientWidth, height: chart.height })));
  draw();
}

// Charts from the tables on the page, a filter, and buttons that copy. Without it every number is
// still there. It asks for nothing from anywhere.
"use strict";
(() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (cell) => Number(cell.dataset.v);

  // A chart reads its numbers off the table below it: the first column is x, the others are lines;
  // of an "interval" the second column is a line and the next two are the ends of a band.
  function columns(figure) {
    const rows = [...figure.querySelectorAll("tbody tr")]
      .map((row) => [...row.querySelectorAll("[data-v]")].map(number))
      .filter((row) => row.length > 0);
    return rows.length ? rows[0].map((_, i) => rows.map((row) => row[i])) : [];
  }

  // 1, 2, 5, 10, 20, ... between the ends of a logarithmic axis
  function steps(_, __, low, high) {
    const found = [];
    for (let power = 1; power <= high; power *= 10) {
      found.push(...[1, 2, 5].map((digit) => digit * power).filter((step) => low <= step && step <= high));
    }
    return found;
  }

  function draw(figure) {
    const data = columns(figure);
    figure.querySelector(".plot")?.remove();
    if (data.length === 0 || data[0].length < 2) return;
    const place = document.createElement("div");
    place.className = "plot";
    place.setAttribute("aria-hidden", "true"); // the table says the same
    figure.insertBefore(place, figure.querySelector(".numbers"));
    const interval = figure.dataset.chart === "interval";
    const heads = [...figure.querySelectorAll("thead th")].map((head) => head.textContent);
    const colours = [css("--accent"), css("--hue-1")];
    const digits = (_, value) => (value == null ? "" : value.toLocaleString("en", { maximumFractionDigits: 3 }));
    const grid = { stroke: css("--line"), width: 1 };
    const axis = { stroke: css("--soft"), grid, ticks: grid, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 18 };
    const series = [{ label: heads[0], value: digits }];
    data.slice(1).forEach((_, i) => {
      const end = interval && i > 0;
      series.push({
        label: heads[i + 1],
        stroke: end ? "transparent" : colours[interval ? 0 : i],
        dash: !interval && i > 0 ? [6, 4] : undefined,
        width: 2,
        points: { show: interval && i === 0, size: 6, fill: colours[0] },
        value: digits,
      });
    });
    const low = Number(figure.dataset.low);
    const high = Number(figure.dataset.high);
    const ends = data.slice(1).flat();
    const margin = interval ? 0.05 * (high - low) : 0;
    const range = interval
      ? [Math.max(low, Math.min(...ends) - margin), Math.min(high, Math.max(...ends) + margin)]
      : [low, high];
    new uPlot(
      {
        width: place.clientWidth,
        height: 260,
        series,
        bands: interval ? [{ series: [3, 2], fill: css("--accent") + "2e" }] : [],
        scales: { x: { time: false, distr: 3, range: [Math.min(...data[0]), Math.max(...data[0])] }, y: { range } },
        axes: [{ ...axis, size: 34, label: figure.dataset.x, splits: steps, filter: (_, ticks) => ticks, values: (_, ticks) => ticks.map((tick) => digits(_, tick)) }, { ...axis, label: figure.dataset.y, size: 46 }],
        cursor: { drag: { x: false, y: false } },
        legend: { show: !interval, live: false },
      },
      data,
      place,
    );
    const numbers = figure.querySelector(".numbers");
    if (!numbers.dataset.seen) {
      numbers.dataset.seen = "yes";
      numbers.open = false; // without a chart they are open
    }
  }

  const figures = [...document.querySelectorAll("figure[data-chart]")];
  const drawAll = () => figures.forEach(draw);
  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) drawAll();
    width = innerWidth;
  });

  for (const field of document.querySelectorAll("[data-filter]")) {
    const rows = [...document.querySelectorAll(`#${field.dataset.filter} tbody tr`)];
    field.closest(".filter").hidden = false;
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      for (const row of rows) row.hidden = !row.dataset.name.includes(wanted);
      document.getElementById("none-found").hidden = rows.some((row) => !row.hidden);
    });
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue; // a plain connection from elsewhere has none
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }
})();

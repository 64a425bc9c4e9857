// Small figures beside numbers, the state of the connection, and `/` for the first filter. All else is HTML.
"use strict";
(function () {
  function draw(figure) {
    const values = JSON.parse(figure.dataset.values || "[]");
    const times = JSON.parse(figure.dataset.times || "[]").map((text) => Date.parse(text) / 1000);
    if (values.length < 2 || figure.firstChild) return;
    const style = getComputedStyle(document.documentElement);
    const stroke = style.getPropertyValue("--link").trim();
    const options = {
      width: Math.max(figure.clientWidth, 60),
      height: 48,
      cursor: { show: false },
      legend: { show: false },
      scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high : 1] } },
      axes: [{ show: false }, { show: false }],
      padding: [3, 0, 3, 0],
      series: [{}, { stroke: stroke, width: 1.5, fill: stroke + "22", spanGaps: true, points: { show: false } }],
    };
    new uPlot(options, [times, values], figure);
  }

  function drawAll() {
    document.querySelectorAll(".spark[data-values]").forEach(draw);
  }

  function live(state, text) {
    const place = document.getElementById("live-state");
    if (!place || place.dataset.live === state) return;
    place.dataset.live = state;
    place.textContent = text;
  }

  document.addEventListener("DOMContentLoaded", drawAll);
  document.addEventListener("htmx:afterSwap", drawAll);
  document.addEventListener("htmx:sseOpen", () => live("yes", "live"));
  document.addEventListener("htmx:sseError", () => live("no", "not connected"));
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.key !== "/") return;
    const first = document.querySelector("form.filters input, form.filters select");
    if (first) {
      event.preventDefault();
      first.focus();
    }
  });
})();

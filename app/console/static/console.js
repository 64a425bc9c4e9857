// Small figures beside numbers, the stream of updates, and `/` for the first filter. All else is HTML.
"use strict";
(function () {
  function draw(figure) {
    if (figure.firstChild) return;
    const values = JSON.parse(figure.dataset.values || "[]");
    const times = JSON.parse(figure.dataset.times || "[]").map((text) => Date.parse(text) / 1000);
    if (values.length < 2) return;
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

  // A stream that is closed while the page is hidden: a browser has six connections to a server for all of its tabs.
  class Stream extends EventTarget {
    constructor(url) {
      super();
      this.url = url;
      this.turn = this.turn.bind(this);
      document.addEventListener("visibilitychange", this.turn);
      this.turn();
    }

    get readyState() {
      return this.source ? this.source.readyState : EventSource.CONNECTING;
    }

    turn() {
      if (document.hidden) {
        if (this.source) this.source.close();
        this.source = null;
        live("", "waits until the page is seen");
      } else if (!this.source) {
        this.open();
      }
    }

    open() {
      this.source = new EventSource(this.url, { withCredentials: true });
      this.source.onopen = (event) => this.onopen && this.onopen(event);
      this.source.onerror = (event) => {
        if (this.readyState === EventSource.CLOSED) this.close();
        if (this.onerror) this.onerror(event);
      };
      this.source.addEventListener("content", (event) => {
        this.dispatchEvent(new MessageEvent("content", { data: event.data }));
      });
    }

    close() {
      document.removeEventListener("visibilitychange", this.turn);
      if (this.source) this.source.close();
    }
  }

  // An update waits while text of the page is selected, which it might exchange. The newest one is kept.
  let kept = null;

  function isSelecting() {
    const place = document.getElementById("live");
    const selection = document.getSelection();
    if (!place || !selection || selection.isCollapsed || !selection.rangeCount) return false;
    return selection.getRangeAt(0).intersectsNode(place);
  }

  function keep(event) {
    if (!isSelecting()) return;
    event.preventDefault();
    kept = event.detail.data;
    live("held", "waits: text is selected");
  }

  function showKept() {
    if (kept === null || isSelecting()) return;
    const place = document.getElementById("live");
    const content = kept;
    kept = null;
    htmx.swap(place, content, { swapStyle: place.getAttribute("hx-swap"), swapDelay: 0, settleDelay: 0 }, { contextElement: place });
    live("yes", "live");
  }

  htmx.createEventSource = (url) => new Stream(url);
  document.addEventListener("htmx:sseBeforeMessage", keep);
  document.addEventListener("selectionchange", showKept);
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

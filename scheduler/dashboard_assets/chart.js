// A chart over time (uPlot) in the colours of the page, with the same figures as a table.
import uPlot from "./vendor/uplot.js";
import { Component, createRef, html } from "./html.js";
import * as f from "./format.js";

// The table has one row for this many seconds.
const TABLE_STEP_S = 7200;

/** series: [{label, values, tone, fills?, dash?}] over `times` (seconds); all of one unit. */
export class Chart extends Component {
  box = createRef();

  componentDidMount() {
    this.draw = () => this.plot();
    this.observer = new ResizeObserver(() => {
      const width = this.box.current.clientWidth;
      if (this.chart && width && width !== this.chart.width) {
        this.chart.setSize({ width, height: this.props.height });
      }
    });
    this.observer.observe(this.box.current);
    addEventListener("themechange", this.draw);
    this.plot();
  }

  componentWillUnmount() {
    this.observer.disconnect();
    removeEventListener("themechange", this.draw);
    this.chart?.destroy();
  }

  shouldComponentUpdate(next) {
    const isSame = JSON.stringify([next.times, next.series]) ===
      JSON.stringify([this.props.times, this.props.series]);
    return !isSame;
  }

  componentDidUpdate() {
    this.chart.setData(this.columns());
    showLast(this.chart);
  }

  columns() {
    const { times, series, stepS } = this.props;
    return withGaps([times, ...series.map(({ values }) => values)], stepS);
  }

  plot() {
    const { series, height } = this.props;
    this.chart?.destroy();
    const colour = (name) => resolved(this.box.current, name);
    const axis = {
      stroke: colour("--text-2"),
      font: '11px system-ui, sans-serif',
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1, size: 4 },
    };
    const options = {
      width: this.box.current.clientWidth || 600,
      height,
      padding: [8, 24, 0, 0],
      legend: { live: true },
      hooks: { setCursor: [showLast] },
      cursor: { points: { size: 6 }, drag: { x: false, y: false } },
      scales: { y: { range: (_, _low, high) => [0, Math.max(1, high * 1.08)] } },
      axes: [
        { ...axis, space: 64, size: 40, values: [
          [86400, "{YYYY}-{MM}-{DD}", null, null, null, null, null, null, 1],
          [3600, "{HH}:{mm}", "\n{MM}-{DD}", null, null, null, null, null, 1],
          [60, "{HH}:{mm}", "\n{MM}-{DD}", null, null, null, null, null, 1],
        ] },
        { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] },
      ],
      series: [
        { label: "time", value: "{YYYY}-{MM}-{DD} {HH}:{mm}" },
        ...series.map(({ label, tone, fills, dash }) => ({
          label,
          stroke: colour(`--${tone}`),
          fill: fills ? colour(`--${tone}-soft`) : undefined,
          width: 1.5,
          dash,
          points: { show: false },
          value: (_, value) => (value == null ? f.NONE : f.number(value)),
        })),
      ],
    };
    this.chart = new uPlot(options, this.columns(), this.box.current);
    showLast(this.chart);
  }

  render({ title, times, series }) {
    const last = series.map(({ label, values }) => `${f.number(values.at(-1) ?? 0)} ${label}`);
    return html`<figure class="chart">
      <div ref=${this.box} role="img" aria-label="${title}; now ${last.join(", ")}"></div>
      <details><summary>Show as a table</summary>
        <div class="table" tabindex="0" role="region" aria-label=${title}><table>
          <caption class="visually-hidden">${title}</caption>
          <thead><tr><th scope="col">Time</th>
            ${series.map(({ label }) => html`<th scope="col" class="numeric" key=${label}>${label}</th>`)}</tr></thead>
          <tbody>${sampled(times).map((at) => html`<tr key=${times[at]}>
            <th scope="row">${f.clock(new Date(times[at] * 1000).toISOString(), 0)}</th>
            ${series.map(({ label, values }) => html`<td class="numeric" key=${label}>${f.number(values[at])}</td>`)}
          </tr>`)}</tbody>
        </table></div>
      </details>
    </figure>`;
  }
}

/** The legend has the newest values unless the pointer is over the chart. */
function showLast(chart) {
  if (chart.cursor.idx == null) chart.setLegend({ idx: chart.data[0].length - 1 }, false);
}

/** The indexes of one point for each table step, newest first. */
function sampled(times) {
  const kept = [];
  for (let at = times.length - 1; at >= 0; at -= 1) {
    if (!kept.length || times[kept.at(-1)] - times[at] >= TABLE_STEP_S) kept.push(at);
  }
  return kept;
}

/** An empty point in each gap, so that no line crosses a time without a leader. */
function withGaps([times, ...columns], stepS) {
  const shown = [[], ...columns.map(() => [])];
  times.forEach((time, at) => {
    if (at && time - times[at - 1] > 1.5 * stepS) {
      shown[0].push(times[at - 1] + stepS);
      columns.forEach((_, of) => shown[of + 1].push(null));
    }
    shown[0].push(time);
    columns.forEach((column, of) => shown[of + 1].push(column[at]));
  });
  return shown;
}

/** A custom property's colour in the present scheme, as a canvas can use it. */
function resolved(element, name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

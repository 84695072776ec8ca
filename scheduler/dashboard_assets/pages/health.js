// Is the scheduler itself well?
import { html } from "../html.js";
import * as f from "../format.js";
import { Age, Answer, Badge, Command, Figure, Panel } from "../parts.js";
import { DataTable } from "../table.js";

const STATES = { ok: ["ok", "good"], warn: ["warning", "warn"], fail: ["failed", "bad"] };
const DAY_S = 86_400;

export function Health({ data, now }) {
  return html`
    <${Verdict} checks=${data.checks} />
    <${Figures} data=${data} now=${now} />
    <div class="columns">
      <div><${Checks} checks=${data.checks} />
        <${Watches} watches=${data.watches} /></div>
      <div><${Process} data=${data} now=${now} />
        <${Counts} data=${data} />
        <${Commands} /></div>
    </div>`;
}

function Verdict({ checks }) {
  const failed = checks.filter(({ state }) => state === "fail");
  const warned = checks.filter(({ state }) => state === "warn");
  if (failed.length) return html`<${Answer} tone="bad">${f.plural(failed.length, "check")} failed: ${failed.map(({ text }) => text).join("; ")}.<//>`;
  if (warned.length) return html`<${Answer} tone="warn">It works, with ${f.plural(warned.length, "warning")}.<//>
    <p class="why">${warned.map(({ text }) => text).join("; ")}.</p>`;
  return html`<${Answer} tone="good">All ${f.plural(checks.length, "check")} passed.<//>`;
}

function Figures({ data, now }) {
  const { decisions, certificate, leadsSince, queue } = data;
  const milliseconds = (value) => (value === null ? f.NONE : value.toFixed(value < 10 ? 1 : 0));
  const left = certificate.expires && (Date.parse(certificate.expires) - now) / 1000;
  return html`<dl class="figures">
    <${Figure} label="Leader for" value=${f.age(leadsSince, now)} note=${data.epoch === null ? "" : `epoch ${data.epoch}`} />
    <${Figure} label="Decision, median" value=${milliseconds(decisions.p50Ms)} unit="ms" />
    <${Figure} label="Decision, 99%" value=${milliseconds(decisions.p99Ms)} unit="ms" note="of the last ${f.number(decisions.sampled)}" />
    <${Figure} label="Decisions a minute" value=${decisions.perMinute ?? f.NONE} />
    <${Figure} label="Certificate" value=${left === null ? "none" : f.duration(left)} tone=${left !== null && left < 14 * DAY_S ? "warn" : "plain"}
      note=${left === null ? "of its own" : `until ${f.day(certificate.expires)}`} />
    <${Figure} label="Queue" value=${f.number(queue.active + queue.backoff + queue.unschedulable)} note="pods" />
  </dl>`;
}

function Checks({ checks }) {
  const columns = [
    { key: "name", title: "Check", cell: ({ name }) => name },
    { key: "state", title: "State", cell: ({ state }) => html`<${Badge} tone=${STATES[state]?.[1] ?? "plain"}>${STATES[state]?.[0] ?? state}<//>` },
    { key: "text", title: "Finding", cell: ({ text }) => text },
  ];
  return html`<${Panel} id="checks" title="Checks" note="gpuctl doctor checks the installation and the cluster too.">
    <${DataTable} caption="Checks of the scheduler" columns=${columns} rows=${checks} keyOf=${({ name }) => name} empty="No check ran." /><//>`;
}

function Process({ data: { identity, pod, leadsSince, build, certificate }, now }) {
  return html`<${Panel} id="process" title="Leader">
    <dl class="lines">
      <div><dt>pod</dt><dd class="mono">${pod}</dd></div>
      <div><dt>identity</dt><dd class="mono">${identity}</dd></div>
      <div><dt>leader for</dt><dd><${Age} since=${leadsSince} now=${now} /></dd></div>
      <div><dt>version</dt><dd>${build.version}, Python ${build.python}</dd></div>
      <div><dt>started</dt><dd><${Age} since=${build.started} now=${now} /> ago</dd></div>
      ${certificate.file && html`<div><dt>certificate</dt><dd class="mono">${certificate.file}</dd></div>`}
    </dl><//>`;
}

const Commands = () => html`<${Panel} id="commands" title="Commands"><ul class="commands">
  <${Command} text="check the installation" command="gpuctl doctor" />
  <${Command} text="the scheduler's log" command="kubectl logs -n gpu-scheduler-system deployment/gpu-scheduler -c scheduler" />
</ul><//>`;

function Watches({ watches }) {
  const columns = [
    { key: "kind", title: "Objects", cell: ({ kind }) => kind },
    { key: "state", title: "State", cell: ({ isSynced, isHealthy }) => html`<${Badge} tone=${isSynced && isHealthy ? "good" : "warn"}>${!isSynced ? "not synced" : isHealthy ? "open" : "failing"}<//>` },
    { key: "vital", title: "Required", wide: true, cell: ({ isVital }) => (isVital ? "yes" : "no") },
    { key: "failures", title: "Failures in a row", numeric: true, cell: ({ failures }) => f.number(failures) },
  ];
  return html`<${Panel} id="watches" title="Watches">
    <${DataTable} caption="Watches of the API server" columns=${columns} rows=${watches} keyOf=${({ kind }) => kind} empty="No watch is open." /><//>`;
}

const BINDS = {
  bound: "bound", gone: "pod was deleted", taken: "bound by another scheduler", refused: "refused", unreachable: "API server not reached", unsent: "not sent",
};

function Counts({ data: { binds, queue, cache, overCommitted, internalErrors, listeners } }) {
  const groups = [
    ["Bindings", Object.entries(binds).map(([name, count]) => [BINDS[name] ?? name, count])],
    ["queue", Object.entries(queue)],
    ["cache", Object.entries(cache)],
    ["devices", [["over-committed nodes", overCommitted]]],
    ["errors", [["internal errors", internalErrors]]],
    ["open pages", [[`of ${listeners.max}`, listeners.open]]],
  ];
  return html`<${Panel} id="counts" title="Counts" note="Since the process started.">
    <dl class="lines">${groups.map(([group, counts]) => html`<div key=${group}><dt>${group}</dt>
      <dd class="counts">${counts.map(([name, count]) => html`
        <span key=${name} class=${count ? "" : "zero"}><strong>${f.number(count)}</strong> ${name}</span>`)}</dd></div>`)}
    </dl><//>`;
}

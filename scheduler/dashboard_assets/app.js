// The dashboard: one state, drawn from the top after each change. It only reads.
import { Component, html, render } from "./html.js";
import { Navigation, address } from "./address.js";
import { Feed } from "./feed.js";
import * as f from "./format.js";
import { Overview } from "./pages/overview.js";
import { Nodes } from "./pages/nodes.js";
import { Waiting } from "./pages/waiting.js";
import { Pod } from "./pages/pod.js";
import { Teams } from "./pages/teams.js";
import { Health } from "./pages/health.js";

// Ages are drawn again after this time; new data are drawn at once.
const TICK_MS = 5_000;
const TITLES = {
  overview: "Overview", nodes: "Nodes", waiting: "Waiting pods", pod: "Pod", teams: "Teams",
  health: "Health", none: "No such page",
};
const PAGES = { overview: Overview, nodes: Nodes, waiting: Waiting, pod: Pod, teams: Teams, health: Health };
const NAVIGATION = [
  ["overview", "Overview"], ["nodes", "Nodes"], ["waiting", "Waiting"], ["teams", "Teams"],
  ["health", "Health"],
];
const THEMES = { auto: "System", light: "Light", dark: "Dark" };

class App extends Component {
  constructor() {
    super();
    this.navigation = new Navigation((route) => this.navigated(route));
    this.set = (changes, options) => this.navigation.set(changes, options);
    this.feed = new Feed((feed) => this.setState({ feed }));
    this.state = {
      route: this.navigation.route,
      feed: { envelope: null, connection: "connecting", since: Date.now() },
      tick: 0,
    };
  }

  componentDidMount() {
    this.follow(this.state.route);
    addEventListener("themechange", () => this.setState({ tick: Date.now() }));
    setInterval(() => this.setState({ tick: Date.now() }), TICK_MS);
  }

  navigated(route) {
    const isOther = title(route) !== title(this.state.route);
    this.setState({ route }, () => {
      if (!isOther) return;
      scrollTo(0, 0);
      document.querySelector("h1")?.focus({ preventScroll: true });
    });
    this.follow(route);
  }

  follow(route) {
    document.title = `${title(route)} \u2013 gpu-scheduler`;
    if (route.page === "none") return;
    const { page, namespace, name } = route;
    this.feed.watch(page === "pod" ? { page, namespace, name } : { page });
  }

  render(_, { route, feed }) {
    const { envelope } = feed;
    const isOwn = envelope?.page === route.page;
    return html`
      <a class="skip" href="#main">Skip to the content</a>
      <header class="top">
        <a class="brand" href=${address("overview")}><span class="mark" aria-hidden="true"></span>${envelope?.scheduler ?? "gpu-scheduler"}</a>
        <nav aria-label="Pages"><ul>
          ${NAVIGATION.map(([page, text]) => html`<li key=${page}><a href=${address(page)}
            aria-current=${isCurrent(page, route) ? "page" : undefined}>${text}</a></li>`)}
        </ul></nav>
        <div class="top-end">
          <${Connection} feed=${feed} />
          <${ThemeChoice} />
        </div>
      </header>
      <${Banner} feed=${feed} />
      <main id="main" tabindex="-1">
        <div class="title"><h1 tabindex="-1">${title(route)}</h1>
          ${envelope?.leader && html`<p class="muted">leader <span class="mono">${envelope.leader}</span></p>`}</div>
        ${this.page(route, isOwn ? envelope : null)}
      </main>`;
  }

  page(route, envelope) {
    if (route.page === "none") {
      return html`<${Notice} title="This address has no page">
        <a href=${address("overview")}>Go to the overview</a>.<//>`;
    }
    if (!envelope) return html`<${Notice} title="Waiting for data" busy>The page asks the scheduler.<//>`;
    if (envelope.state !== "ok" || !envelope.data) {
      return html`<${Notice} title=${NOTICES[envelope.state] ?? "No data"}>${envelope.message}<//>`;
    }
    const now = Math.max(Date.now(), Date.parse(envelope.time) || 0);
    const View = PAGES[route.page];
    return html`<${View} key=${title(route)} data=${envelope.data} query=${route.query}
      set=${this.set} now=${now} />`;
  }
}

const NOTICES = {
  standby: "This replica is not the leader",
  starting: "The scheduler is starting",
  unknown: "This pod is not known",
};

function title(route) {
  return route.page === "pod" ? `${route.namespace}/${route.name}` : TITLES[route.page];
}

function isCurrent(page, route) {
  return page === route.page || (page === "waiting" && route.page === "pod");
}

const Notice = ({ title: text, busy = false, children }) => html`
  <section class="notice" aria-busy=${busy}><h2>${text}</h2><p>${children}</p></section>`;

const CONNECTIONS = {
  connecting: "connecting", live: "live", lost: "no connection", polling: "each 10 s",
};

const Connection = ({ feed }) => html`
  <span class="connection is-${feed.connection}"
    title=${feed.envelope ? `data of ${f.clock(feed.envelope.time, Date.now())}` : ""}>
    <span class="dot" aria-hidden="true"></span><span role="status">${CONNECTIONS[feed.connection]}</span>
  </span>`;

const ThemeChoice = () => html`
  <label class="theme"><span class="visually-hidden">Colours</span>
    <select onChange=${(event) => globalThis.theme.set(event.currentTarget.value)}>
      ${Object.entries(THEMES).map(([value, text]) => html`
        <option key=${value} value=${value} selected=${globalThis.theme.current() === value}>${text}</option>`)}
    </select></label>`;

/** What a reader must know before trusting the page. */
function Banner({ feed: { connection, envelope } }) {
  const of = envelope && f.clock(envelope.time, Date.now());
  if (connection === "lost") {
    return html`<p class="banner tone-bad" role="alert">Connection lost.${" "}${of
      ? `The page shows the data of ${of} and connects again by itself.`
      : "The page connects again by itself."}${" "}
      If <code>gpuctl dashboard</code> or the port-forward ended, start it again.</p>`;
  }
  if (connection === "polling") {
    return html`<p class="banner tone-warn" role="status">Live updates are not available; the page${" "}
      asks each 10 s. Data of ${of}.</p>`;
  }
  return null;
}

render(html`<${App} />`, document.getElementById("app"));

// The address of a view: its path names the page, its query has filters and order. Everything that
// a reader chooses is in the address, so that a link shows the same view to another reader.

const ROOT = "/dashboard";
export const PAGES = ["overview", "nodes", "waiting", "teams", "health"];

/** The route of an address: {page, namespace, name, query}. */
export function parse(pathname, search) {
  const query = Object.fromEntries(new URLSearchParams(search));
  const parts = pathname.slice(ROOT.length).split("/").filter(Boolean).map(decoded);
  if (parts[0] === "pods" && parts.length === 3) {
    return { page: "pod", namespace: parts[1], name: parts[2], query };
  }
  if (parts.length === 0) return { page: "overview", query };
  return { page: parts.length === 1 && PAGES.includes(parts[0]) ? parts[0] : "none", query };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a page; empty values of the query are left out. */
export function address(page, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const search = new URLSearchParams(kept).toString();
  return `${ROOT}/${page}${search && `?${search}`}`;
}

/** The address of a pod's page. */
export function podAddress(namespace, name) {
  return `${ROOT}/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

/** Calls back with the route now and after each navigation; links of this page need no reload. */
export class Navigation {
  constructor(changed) {
    this.changed = changed;
    addEventListener("popstate", () => this.#read());
    document.addEventListener("click", (event) => this.#clicked(event));
  }

  get route() {
    return parse(location.pathname, location.search);
  }

  /** Show another view; `replaces` keeps the history as it is (typing in a filter). */
  go(target, { replaces = false } = {}) {
    history[replaces ? "replaceState" : "pushState"](null, "", target);
    this.#read();
  }

  /** The same page with other filters. */
  set(changes, options) {
    const query = { ...this.route.query, ...changes };
    const kept = Object.entries(query).filter(([, value]) => value !== "" && value != null);
    const search = new URLSearchParams(kept).toString();
    this.go(`${location.pathname}${search && `?${search}`}`, options);
  }

  #read() {
    this.changed(this.route);
  }

  #clicked(event) {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey) return;
    if (event.shiftKey || event.altKey) return;
    const link = event.target.closest?.("a[href]");
    if (!link || link.target || link.hasAttribute("download")) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !url.pathname.startsWith(`${ROOT}/`)) return;
    if (url.pathname.startsWith(`${ROOT}/assets/`) || link.getAttribute("href").startsWith("#")) {
      return;
    }
    event.preventDefault();
    this.go(url.pathname + url.search);
  }
}

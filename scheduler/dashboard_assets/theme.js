// Applies the stored colour scheme before the first paint. A classic script, because modules run
// after the document is parsed. "auto" follows prefers-color-scheme.
(() => {
  const KEY = "gpu-scheduler.theme";
  const CHOICES = ["auto", "light", "dark"];

  function stored() {
    try {
      const choice = localStorage.getItem(KEY);
      return CHOICES.includes(choice) ? choice : "auto";
    } catch {
      return "auto"; // storage is blocked
    }
  }

  function apply(choice) {
    if (choice === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
  }

  function isDark() {
    const choice = document.documentElement.dataset.theme;
    return choice ? choice === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  globalThis.theme = {
    current: stored,
    isDark,
    set(choice) {
      try {
        localStorage.setItem(KEY, choice);
      } catch {
        // The choice holds until the page is closed.
      }
      apply(choice);
      dispatchEvent(new Event("themechange"));
    },
  };
  apply(stored());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    dispatchEvent(new Event("themechange"));
  });
})();

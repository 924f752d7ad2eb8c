// Shows one step at a time: by buttons, keys, the slider, the references and the address.
(() => {
    const root = document.documentElement;
    const steps = [...document.querySelectorAll('.step')];
    const links = [...document.querySelectorAll('.references a')];
    const by = (id) => document.getElementById(id);
    let now = 0;

    function show(index, say) {
        now = Math.max(0, Math.min(steps.length - 1, index));
        steps.forEach((step, at) => step.classList.toggle('shown', at === now));
        links.forEach((link, at) => {
            if (at === now) link.setAttribute('aria-current', 'step'); else link.removeAttribute('aria-current');
        });
        by('slider').value = now + 1;
        by('slider').setAttribute('aria-valuetext', `step ${now + 1} of ${steps.length}`);
        by('first').disabled = by('back').disabled = now === 0;
        by('last').disabled = by('next').disabled = now === steps.length - 1;
        if (say) by('said').textContent = `Step ${now + 1}. ${steps[now].querySelector('.words').textContent}`;
        try { history.replaceState(null, '', `#step-${now + 1}`); } catch { /* A page that is no file may not change its address. */ }
    }

    const asked = () => Number(/^#step-(\d+)$/.exec(location.hash)?.[1] ?? 1) - 1;
    by('first').addEventListener('click', () => show(0, true));
    by('back').addEventListener('click', () => show(now - 1, true));
    by('next').addEventListener('click', () => show(now + 1, true));
    by('last').addEventListener('click', () => show(steps.length - 1, true));
    by('slider').addEventListener('input', () => show(by('slider').value - 1, true));
    links.forEach((link, at) => link.addEventListener('click', (event) => {
        event.preventDefault();
        show(at, true);
    }));
    addEventListener('hashchange', () => show(asked(), true));
    addEventListener('keydown', (event) => {
        if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
        const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: steps.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        show(to, true);
    });

    const theme = by('theme');
    const name = () => { theme.textContent = root.dataset.theme === 'dark' ? 'Light' : 'Dark'; };
    theme.addEventListener('click', () => {
        root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
        try { localStorage.setItem('forebay-theme', root.dataset.theme); } catch { /* It is not kept. */ }
        name();
    });
    name();
    let shown = root.dataset.theme;
    addEventListener('beforeprint', () => { shown = root.dataset.theme; root.dataset.theme = 'light'; });
    addEventListener('afterprint', () => { root.dataset.theme = shown; });
    root.classList.add('stepping');
    document.querySelector('.stepper').hidden = false;
    show(asked(), false);
})();

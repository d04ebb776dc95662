//! One page in a browser: loading, reading, pointing, printing.

use super::chromium::Chromium;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::path::Path;

/// The color scheme of the reader's system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Light,
    Dark,
}

/// A window of a size in CSS pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) width: u32,
    pub(super) height: u32,
}

/// A desktop window.
pub(super) const WIDE: Window = Window { width: 1280, height: 900 };
/// A phone screen.
pub(super) const NARROW: Window = Window { width: 390, height: 844 };

/// A tab with a page.
pub(super) struct Tab {
    browser: Chromium,
    session: String,
}

impl Tab {
    /// Loads a page in a new browser.
    pub(super) fn open(page: &str, window: Window, scheme: Scheme) -> Self {
        Self::with_probe(page, window, scheme, "")
    }

    /// Loads a page after running a script in it, which can count the page's work.
    pub(super) fn with_probe(page: &str, window: Window, scheme: Scheme, probe: &str) -> Self {
        let mut browser = Chromium::start();
        let target = browser.call("", "Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("", "Target.attachToTarget", &attach)["sessionId"].take();
        let session = session.as_str().unwrap_or_else(|| panic!("no session: {session}")).to_owned();
        let mut tab = Tab { browser, session };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), &json!({}));
        }
        tab.resize(window);
        tab.prefer(scheme);
        tab.call("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": probe }));
        let file = tab.browser.directory().join("page.html");
        std::fs::write(&file, page).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        tab.call("Page.navigate", &json!({ "url": format!("file://{}", file.display()) }));
        tab.wait_for("Page.loadEventFired");
        tab.settle();
        tab
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.browser.call(&self.session, method, parameters)
    }

    fn wait_for(&mut self, event: &str) {
        while !self.browser.events.iter().any(|seen| seen["method"] == event) {
            let message = self.browser.next(event);
            self.browser.events.push(message);
        }
    }

    pub(super) fn resize(&mut self, Window { width, height }: Window) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
    }

    pub(super) fn prefer(&mut self, scheme: Scheme) {
        let value = if scheme == Scheme::Dark { "dark" } else { "light" };
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        self.call("Emulation.setEmulatedMedia", &feature);
    }

    /// Waits until all work postponed to the next frames is done.
    pub(super) fn settle(&mut self) {
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))",
        );
    }

    /// Returns the value of a JavaScript expression, awaiting it if it is a promise.
    pub(super) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", &parameters);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    /// Returns an expression's value as a number.
    pub(super) fn number(&mut self, expression: &str) -> f64 {
        let value = self.evaluate(expression);
        value.as_f64().unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// Returns an expression's value as a text.
    pub(super) fn text(&mut self, expression: &str) -> String {
        let value = self.evaluate(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression} is {value}")).to_owned()
    }

    /// Returns an expression's value as a Boolean.
    pub(super) fn holds(&mut self, expression: &str) -> bool {
        let value = self.evaluate(expression);
        value.as_bool().unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// Returns a point inside the first element that matches a selector, by shares of its width and height,
    /// after scrolling it into view.
    pub(super) fn point_in(&mut self, selector: &str, across: f64, down: f64) -> (f64, f64) {
        self.evaluate(&format!(
            "document.querySelector({selector:?}).scrollIntoView({{ block: 'nearest' }})"
        ));
        // Elements that come into view may unfold.
        self.settle();
        let place = format!(
            "(() => {{ const b = document.querySelector({selector:?}).getBoundingClientRect();
             return [b.left + b.width * {across}, b.top + b.height * {down}]; }})()"
        );
        let place = self.evaluate(&place);
        let axis = |i: usize| place[i].as_f64().unwrap_or_else(|| panic!("{selector} is nowhere: {place}"));
        (axis(0), axis(1))
    }

    /// Moves the pointer.
    pub(super) fn hover(&mut self, (x, y): (f64, f64)) {
        self.mouse("mouseMoved", (x, y), "none", 0);
    }

    /// Clicks a number of times in a row.
    pub(super) fn click(&mut self, at: (f64, f64), times: u32) {
        self.hover(at);
        for count in 1..=times {
            self.mouse("mousePressed", at, "left", count);
            self.mouse("mouseReleased", at, "left", count);
        }
        self.settle();
    }

    /// Clicks the first element that matches a selector.
    pub(super) fn press(&mut self, selector: &str) {
        let at = self.point_in(selector, 0.5, 0.5);
        self.click(at, 1);
    }

    /// Drags from one point to another.
    pub(super) fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.hover(from);
        self.mouse("mousePressed", from, "left", 1);
        self.mouse("mouseMoved", ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0), "left", 0);
        self.mouse("mouseMoved", to, "left", 0);
        self.mouse("mouseReleased", to, "left", 1);
        self.settle();
    }

    /// Presses a key on the focused element.
    pub(super) fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", &json!({ "type": kind, "key": key, "text": key }));
        }
        self.settle();
    }

    /// Turns the wheel by a number of notches while the control key is held.
    pub(super) fn wheel_with_control(&mut self, (x, y): (f64, f64), notches: i32) {
        const CONTROL: u32 = 2;
        let event = json!({
            "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": notches * 100, "modifiers": CONTROL,
        });
        self.call("Input.dispatchMouseEvent", &event);
        self.settle();
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64), button: &str, clicks: u32) {
        let event = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": clicks });
        self.call("Input.dispatchMouseEvent", &event);
    }

    /// Returns the page as a PDF on A4 paper.
    pub(super) fn print(&mut self) -> Vec<u8> {
        let paper = json!({ "paperWidth": 8.27, "paperHeight": 11.69, "printBackground": true });
        let answer = self.call("Page.printToPDF", &paper);
        decoded(&answer["data"])
    }

    /// Lays the page out for paper and leaves it so: its events, its style sheet, the width of A4 minus the
    /// margins.
    pub(super) fn print_layout(&mut self) {
        self.evaluate("dispatchEvent(new Event('beforeprint'))");
        self.call("Emulation.setEmulatedMedia", &json!({ "media": "print" }));
        self.resize(Window { width: 688, height: 1016 });
        self.settle();
    }

    /// Writes a picture of the whole page into the directory `UNBLOAT_SCREENSHOTS`, if that is set.
    pub(super) fn picture(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("UNBLOAT_SCREENSHOTS") else { return };
        let answer = self.call("Page.captureScreenshot", &json!({ "captureBeyondViewport": true }));
        let file = Path::new(&directory).join(name).with_extension("png");
        std::fs::write(&file, decoded(&answer["data"]))
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    /// Returns errors and warnings in the console, exceptions, and refused resources.
    pub(super) fn complaints(&mut self) -> Vec<String> {
        self.settle();
        let complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Log.entryAdded") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] != "log",
            _ => false,
        };
        self.browser.events.iter().filter(complaint).map(Value::to_string).collect()
    }

    /// Returns the reasons why requests were not sent.
    pub(super) fn blocked(&mut self) -> Vec<String> {
        self.settle();
        let failed = self.browser.events.iter().filter(|event| event["method"] == "Network.loadingFailed");
        failed
            .map(|event| event["params"]["blockedReason"].as_str().unwrap_or("not blocked").to_owned())
            .collect()
    }

    /// Returns the addresses requested by the page, except its own file.
    pub(super) fn requests(&mut self) -> Vec<String> {
        self.settle();
        let sent = self.browser.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        let urls = sent.map(|event| event["params"]["request"]["url"].to_string());
        urls.filter(|url| !(url.starts_with("\"file://") && url.ends_with("/page.html\""))).collect()
    }
}

fn decoded(data: &Value) -> Vec<u8> {
    BASE64.decode(data.as_str().unwrap_or_default()).unwrap_or_else(|error| panic!("no data: {error}"))
}

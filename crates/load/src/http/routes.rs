//! Routes with weights, read from a TOML file or made from URLs.
//!
//! `docs/guide/bench.md` documents the format. Texts may contain `{{name}}`, which is replaced in each
//! request by a value of the variable with that name.

use crate::options::OptionsError;
use serde::Deserialize;
use std::collections::BTreeMap;

/// All requests of a run.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routes {
    /// Base URL of the routes; with it they may be plain paths.
    pub base: Option<String>,
    /// Headers added to every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The values of each `{{name}}`.
    #[serde(default)]
    pub variables: BTreeMap<String, Values>,
    /// The login of every user before the first request.
    pub login: Option<Login>,
    /// The requests.
    #[serde(rename = "route")]
    pub routes: Vec<Route>,
}

/// The values of a variable; one is drawn for each request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Values {
    /// One value of a list.
    List(Vec<String>),
    /// An integer in this range, both ends included.
    Range {
        /// Minimum.
        from: i64,
        /// Maximum.
        to: i64,
    },
}

/// A form that every user fills in and sends once, keeping the cookies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The page with the form, fetched first for its cookies and its CSRF token.
    pub page: String,
    /// The target of the form; by default the page itself.
    pub action: Option<String>,
    /// Its fields. `{{user}}` is the number of the user, from 1.
    pub fields: BTreeMap<String, String>,
    /// The hidden field whose value is taken from the page; `authenticity_token` by default. `{{csrf}}` in
    /// the routes stands for the token of the page [`Login::then`].
    #[serde(default = "authenticity_token")]
    pub token: String,
    /// A page to fetch after the login, whose CSRF token the routes use.
    pub then: Option<String>,
}

fn authenticity_token() -> String {
    "authenticity_token".to_owned()
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Its name in the results; by default the method and the path.
    pub name: Option<String>,
    /// Relative frequency.
    #[serde(default = "one")]
    pub weight: f64,
    /// `GET` by default.
    #[serde(default = "get")]
    pub method: String,
    /// A URL, or a path below `base`.
    pub path: String,
    /// Additional headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(flatten)]
    pub body: Body,
    /// The statuses that count as success; by default all below 400.
    #[serde(default)]
    pub expect: Vec<u16>,
}

/// The body of a request.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Body {
    /// Literal text.
    #[serde(default)]
    pub body: Option<String>,
    /// The fields of a form.
    #[serde(default)]
    pub form: BTreeMap<String, String>,
    /// A file to send with the form.
    #[serde(default)]
    pub upload: Option<Upload>,
}

/// A file of pseudo-random bytes, sent as a browser sends one (`multipart/form-data`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upload {
    /// The form's field.
    pub field: String,
    /// The file's name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: usize,
}

fn one() -> f64 {
    1.0
}

fn get() -> String {
    "GET".to_owned()
}

impl Routes {
    /// Parses a route file; `base` replaces the file's own.
    ///
    /// # Errors
    /// The text is not TOML, has an unknown key, or is inconsistent.
    pub fn parse(text: &str, base: Option<&str>) -> Result<Self, OptionsError> {
        let mut routes: Self = toml::from_str(text).map_err(|error| OptionsError(error.to_string()))?;
        routes.base = base.map(str::to_owned).or(routes.base);
        routes.check()?;
        Ok(routes)
    }

    /// Creates `GET` routes for these URLs, all with the same weight; `3*URL` gives one a weight of 3.
    ///
    /// # Errors
    /// A URL is invalid.
    pub fn of_urls(urls: &[String]) -> Result<Self, OptionsError> {
        let routes = urls.iter().map(|text| {
            let weighted =
                text.split_once('*').and_then(|(weight, url)| Some((weight.parse::<f64>().ok()?, url)));
            let (weight, url) = weighted.unwrap_or((1.0, text));
            let route = Route {
                name: None,
                weight,
                method: get(),
                path: url.to_owned(),
                headers: BTreeMap::new(),
                body: Body::default(),
                expect: Vec::new(),
            };
            if url::Url::parse(url).is_ok() {
                Ok(route)
            } else {
                Err(OptionsError(format!("'{url}' is not a URL")))
            }
        });
        let routes = Self { routes: routes.collect::<Result<_, _>>()?, ..Self::default() };
        routes.check()?;
        Ok(routes)
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> Result<url::Url, OptionsError> {
        let joined = match &self.base {
            Some(base) => url::Url::parse(base).and_then(|base| base.join(path)),
            None => url::Url::parse(path),
        };
        let url = joined.map_err(|error| {
            let hint = if self.base.is_none() { " (a path alone needs a base)" } else { "" };
            OptionsError(format!("'{path}' does not give a valid URL: {error}{hint}"))
        })?;
        if matches!(url.scheme(), "http" | "https") && url.has_host() {
            Ok(url)
        } else {
            Err(OptionsError(format!("{url} is not an http or https URL")))
        }
    }

    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        if self.routes.is_empty() {
            return Err(OptionsError("there is no route: give URLs, or [[route]] tables".to_owned()));
        }
        for (name, values) in &self.variables {
            let empty = match values {
                Values::List(list) => list.is_empty(),
                Values::Range { from, to } => from > to,
            };
            if empty {
                return Err(OptionsError(format!("the variable {name} has no value")));
            }
        }
        for route in &self.routes {
            let name = route.label();
            if !(route.weight.is_finite() && route.weight > 0.0) {
                return Err(OptionsError(format!("the weight of {name} has to be a number above 0")));
            }
            if route.body.body.is_some() && !(route.body.form.is_empty() && route.body.upload.is_none()) {
                return Err(OptionsError(format!("{name} has a body and a form: give it one of them")));
            }
            hyper::Method::from_bytes(route.method.as_bytes())
                .map_err(|_| OptionsError(format!("'{}' is no HTTP method", route.method)))?;
            self.url(&route.path)?;
            self.check_names(route)?;
        }
        Ok(())
    }

    fn check_names(&self, route: &Route) -> Result<(), OptionsError> {
        let csrf = self.login.is_some();
        for text in route.texts() {
            for name in super::template::names(text) {
                if !(self.variables.contains_key(name) || (csrf && name == "csrf")) {
                    let label = route.label();
                    return Err(OptionsError(format!(
                        "{label} uses {{{{{name}}}}}, but there is no variable {name}"
                    )));
                }
            }
        }
        Ok(())
    }
}

impl Route {
    /// Returns its name in the results.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{} {}", self.method, self.path))
    }

    /// Iterates over all its texts that may contain variables.
    fn texts(&self) -> impl Iterator<Item = &str> {
        [&self.path]
            .into_iter()
            .chain(self.headers.values())
            .chain(&self.body.body)
            .chain(self.body.form.values())
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const FILE: &str = r#"
base = "http://localhost:3000"
headers = { Accept = "text/html" }

[variables]
post = { from = 1, to = 500 }
word = ["ruby", "memory"]

[login]
page = "/login"
fields = { email = "user{{user}}@example.com", password = "secret" }
then = "/posts/new"

[[route]]
name = "post"
weight = 5
path = "/posts/{{post}}"

[[route]]
method = "POST"
path = "/posts"
form = { title = "about {{word}}", authenticity_token = "{{csrf}}" }
expect = [302]

[[route]]
method = "POST"
path = "/uploads"
upload = { field = "file", name = "a.bin", bytes = 100000 }
"#;

    #[test]
    fn a_route_file_is_read() {
        let routes = Routes::parse(FILE, None).unwrap();
        assert_eq!(routes.routes.len(), 3);
        assert_eq!(routes.routes[0].label(), "post");
        assert_eq!(routes.routes[1].label(), "POST /posts");
        assert_eq!(routes.login.as_ref().unwrap().token, "authenticity_token");
        assert_eq!(routes.url("/posts/7").unwrap().as_str(), "http://localhost:3000/posts/7");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let refused =
            |from: &str, to: &str| Routes::parse(&FILE.replace(from, to), None).unwrap_err().to_string();
        assert!(refused("weight = 5", "weight = -1").contains("weight of post"));
        assert!(refused("weight = 5", "wieght = 5").contains("wieght"));
        assert!(refused("{{post}}", "{{pots}}").contains("no variable pots"));
        assert!(
            refused("method = \"POST\"\npath = \"/posts\"", "method = \"P ST\"\npath = \"/posts\"")
                .contains("'P ST' is no HTTP method")
        );
        assert!(refused("base = \"http://localhost:3000\"", "").contains("needs a base"));
        assert!(refused("to = 500", "to = 0").contains("variable post has no value"));
    }

    #[test]
    fn urls_have_weights() {
        let routes =
            Routes::of_urls(&["http://a.example/".to_owned(), "3*http://a.example/b".to_owned()]).unwrap();
        assert_eq!((routes.routes[0].weight, routes.routes[1].weight), (1.0, 3.0));
        Routes::of_urls(&["nonsense".to_owned()]).unwrap_err();
        Routes::of_urls(&["ftp://a.example/".to_owned()]).unwrap_err();
    }
}

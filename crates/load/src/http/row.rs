//! The sequence of requests. The seed alone decides which one is the nth, no matter who is free when. Two
//! runs with the same seed send the same requests in the same order.

use super::form;
use super::options::HttpOptions;
use super::routes::{Routes, Values};
use super::template;
use crate::options::OptionsError;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::BTreeMap;
use url::Url;

/// A request to send.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    /// Index of its route.
    pub(super) route: usize,
    pub(super) method: hyper::Method,
    pub(super) url: Url,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// The sequence of requests.
#[derive(Debug)]
pub(super) struct Row {
    routes: Routes,
    headers: Vec<(String, String)>,
    /// Cumulative weights of the routes.
    sums: Vec<f64>,
    seed: u64,
}

impl Row {
    pub(super) fn new(plan: &HttpOptions) -> Self {
        let sums = plan.routes.routes.iter().scan(0.0, |sum, route| {
            *sum += route.weight;
            Some(*sum)
        });
        Self {
            routes: plan.routes.clone(),
            headers: plan.headers.clone(),
            sums: sums.collect(),
            seed: plan.seed,
        }
    }

    /// Returns the request with this number; `csrf` is the user's token.
    pub(super) fn request(&self, number: u64, csrf: Option<&str>) -> Result<Request, OptionsError> {
        // Each number has its own generator, so the order in which users take numbers changes nothing.
        let mut random = SmallRng::seed_from_u64(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let total = self.sums.last().copied().unwrap_or(1.0);
        let drawn = random.random::<f64>() * total;
        let index = self.sums.iter().position(|&sum| drawn < sum).unwrap_or(self.sums.len() - 1);
        let route = &self.routes.routes[index];
        let values: BTreeMap<&str, String> = self
            .routes
            .variables
            .iter()
            .map(|(name, values)| (name.as_str(), draw(values, &mut random)))
            .collect();
        let mut value = |name: &str| match name {
            "csrf" => csrf.map(str::to_owned),
            name => values.get(name).cloned(),
        };
        let mut fill = |text: &str| template::fill(text, &mut value);
        let url = self.routes.url(&fill(&route.path))?;
        let every =
            self.routes.headers.iter().map(|(name, text)| (name.clone(), fill(text))).collect::<Vec<_>>();
        let own = route.headers.iter().map(|(name, text)| (name.clone(), fill(text))).collect::<Vec<_>>();
        let mut headers: Vec<(String, String)> =
            self.headers.iter().cloned().chain(every).chain(own).collect();
        let fields: BTreeMap<String, String> =
            route.body.form.iter().map(|(name, text)| (name.clone(), fill(text))).collect();
        let encoded = match (&route.body.body, &route.body.upload) {
            (Some(body), _) => (None, fill(body).into_bytes()),
            (None, Some(upload)) => some_kind(form::multipart(&fields, upload, &mut random)),
            (None, None) if !fields.is_empty() => some_kind(form::encode(&fields)),
            (None, None) => (None, Vec::new()),
        };
        let (kind, body) = encoded;
        headers.extend(kind.map(|kind| ("Content-Type".to_owned(), kind)));
        // Validated with the options.
        let method = hyper::Method::from_bytes(route.method.as_bytes()).unwrap_or(hyper::Method::GET);
        Ok(Request { route: index, method, url, headers, body })
    }
}

fn some_kind((kind, body): (String, Vec<u8>)) -> (Option<String>, Vec<u8>) {
    (Some(kind), body)
}

fn draw(values: &Values, random: &mut SmallRng) -> String {
    match values {
        Values::List(list) => list[random.random_range(0..list.len())].clone(),
        Values::Range { from, to } => random.random_range(*from..=*to).to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(seed: u64) -> Row {
        let text = "base = \"http://h\"\n[variables]\nid = { from = 1, to = 1000 }\n\
            [[route]]\nweight = 3\npath = \"/a/{{id}}\"\n[[route]]\npath = \"/b\"\nmethod = \"POST\"\nform = { x = \"{{id}} y\" }\n";
        Row::new(&HttpOptions { seed, ..HttpOptions::new(Routes::parse(text, None).unwrap()) })
    }

    #[test]
    fn the_seed_decides_the_row() {
        let numbers = || (0..200).rev();
        let requests = |seed| numbers().map(|n| row(seed).request(n, None).unwrap()).collect::<Vec<_>>();
        assert_eq!(requests(1), requests(1));
        assert_ne!(requests(1), requests(2));
    }

    #[test]
    fn weights_are_kept_and_variables_filled_in() {
        let row = row(7);
        let requests: Vec<Request> = (0..4000).map(|n| row.request(n, None).unwrap()).collect();
        let first = requests.iter().filter(|request| request.route == 0).count();
        assert!((2900..3100).contains(&first), "{first} of 4000 are of the route with weight 3 of 4");
        let ids: std::collections::BTreeSet<&str> =
            requests.iter().filter(|request| request.route == 0).map(|request| request.url.path()).collect();
        assert!(ids.len() > 900, "3000 draws of 1000 values gave only {}", ids.len());
        let post = requests.iter().find(|request| request.route == 1).unwrap();
        let body = String::from_utf8(post.body.clone()).unwrap();
        assert!(body.starts_with("x=") && body.ends_with("+y"), "{body}");
        assert_eq!(
            post.headers,
            [("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned())]
        );
    }
}

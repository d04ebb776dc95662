//! Forms: the token in a page, and request bodies as a browser sends them.

use super::routes::Upload;
use rand::Rng as _;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;

/// Returns the value of the hidden field with this name, or of the `<meta>` tag where Rails puts the token.
pub(super) fn token(html: &str, field: &str) -> Option<String> {
    let tags = html.split('<').skip(1).filter_map(|rest| rest.split_once('>').map(|(tag, _)| tag));
    let mut found = None;
    for tag in tags {
        let name = attribute(tag, "name");
        if tag.starts_with("input") && name == Some(field) {
            return attribute(tag, "value").map(unescape);
        }
        if tag.starts_with("meta") && name == Some("csrf-token") {
            found = attribute(tag, "content").map(unescape);
        }
    }
    found
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    ['"', '\''].into_iter().find_map(|quote| {
        let start = tag.find(&format!(" {name}={quote}"))? + name.len() + 3;
        tag.get(start..)?.split(quote).next()
    })
}

fn unescape(text: &str) -> String {
    text.replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&#43;", "+")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// Encodes a form and returns its content type and body.
pub(super) fn encode(fields: &BTreeMap<String, String>) -> (String, Vec<u8>) {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    ("application/x-www-form-urlencoded".to_owned(), body.into_bytes())
}

/// Encodes a form with a file and returns its content type and body.
pub(super) fn multipart(
    fields: &BTreeMap<String, String>,
    upload: &Upload,
    random: &mut SmallRng,
) -> (String, Vec<u8>) {
    let boundary = format!("unbloat-{:016x}", random.next_u64());
    let mut body = Vec::with_capacity(upload.bytes + 512);
    for (name, value) in fields {
        let part =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend_from_slice(part.as_bytes());
    }
    let Upload { field, name, bytes } = upload;
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\"{name}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    body.extend_from_slice(head.as_bytes());
    let start = body.len();
    body.resize(start + bytes, 0);
    random.fill_bytes(&mut body[start..]);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={boundary}"), body)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rand::SeedableRng as _;

    #[test]
    fn the_forms_token_is_found_before_the_metas() {
        let html = r#"<head><meta name="csrf-token" content="meta&#43;token" /></head>
            <form><input type="hidden" name="authenticity_token" value="a&amp;b==" autocomplete="off" /></form>"#;
        assert_eq!(token(html, "authenticity_token").unwrap(), "a&b==");
        assert_eq!(token(html, "other").unwrap(), "meta+token");
        assert_eq!(token("<p>none</p>", "authenticity_token"), None);
    }

    #[test]
    fn a_file_is_sent_as_a_browser_does() {
        let upload = Upload { field: "file".to_owned(), name: "a.bin".to_owned(), bytes: 1000 };
        let fields = BTreeMap::from([("title".to_owned(), "x".to_owned())]);
        let (kind, body) = multipart(&fields, &upload, &mut SmallRng::seed_from_u64(1));
        let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
        let text = String::from_utf8_lossy(&body);
        assert!(
            text.starts_with(&format!("--{boundary}\r\n")) && text.ends_with(&format!("--{boundary}--\r\n"))
        );
        assert!(text.contains("name=\"title\"\r\n\r\nx\r\n") && text.contains("filename=\"a.bin\""));
    }
}

//! Where a collector of OpenTelemetry takes log records: the settings, then the environment, then the usual port of this host.
//!
//! OTEL_EXPORTER_OTLP_LOGS_ENDPOINT and OTEL_EXPORTER_OTLP_ENDPOINT as its specification of exporters has them. Apart from otlp.rs, which
//! posts: the settings are judged by it before there is any output. Must not: ask the net.

use super::place::Url;
use super::settings::OtlpSettings;

const OWN: &str = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT";
const SHARED: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const PATH: &str = "/v1/logs";
const USUAL: &str = "http://localhost:4318";

/// Where logs are posted; why that is wrong.
pub(in super::super) fn endpoint(
    settings: &OtlpSettings,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Url, String> {
    let below =
        |base: Url| Url { path: format!("{}{PATH}", base.path.trim_end_matches('/')), ..base };
    let of = |name: &str| environment(name).filter(|text| !text.is_empty());
    let read = |name: &str, text: String| {
        text.parse::<Url>().map_err(|why| format!("{name} is {text}: {why}"))
    };
    if let Some(base) = &settings.endpoint {
        return Ok(below(base.clone()));
    }
    match (of(OWN), of(SHARED)) {
        (Some(own), _) => read(OWN, own),
        (None, Some(shared)) => read(SHARED, shared).map(below),
        (None, None) => USUAL.parse().map(below),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(endpoint_of: &str, own: &str, shared: &str) -> Result<String, String> {
        let settings = OtlpSettings {
            enabled: true,
            endpoint: (!endpoint_of.is_empty()).then(|| endpoint_of.parse().expect("an endpoint")),
        };
        let environment = |name: &str| Some(if name == OWN { own } else { shared }.to_string());
        endpoint(&settings, environment).map(|it| it.to_string())
    }

    #[test]
    fn where_to_is_said_as_opentelemetry_has_it() {
        assert_eq!(to("", "", ""), Ok("http://localhost:4318/v1/logs".into()));
        assert_eq!(to("", "", "http://a:1/x/"), Ok("http://a:1/x/v1/logs".into()));
        assert_eq!(to("", "http://a:1/own", "http://b:1"), Ok("http://a:1/own".into()));
        assert_eq!(
            to("http://c:1", "http://a:1/own", "http://b:1"),
            Ok("http://c:1/v1/logs".into())
        );
        let why = to("", "", "https://a:4318").expect_err("no TLS");
        assert!(why.contains(SHARED) && why.contains("https is not spoken"), "{why}");
    }
}

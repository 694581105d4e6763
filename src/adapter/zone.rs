//! Which time zone this machine shows its clocks in.

use jiff::tz::TimeZone;

/// The zone that `TZ` names, else the system's; UTC if neither is known. `tz`: the variable's value.
pub fn local_zone(tz: Option<String>) -> TimeZone {
    let named = tz.map(|name| name.trim_start_matches(':').to_owned()).filter(|name| !name.is_empty());
    let system = || {
        let link = std::fs::read_link("/etc/localtime").ok()?;
        let (_, name) = link.to_str()?.split_once("zoneinfo/")?;
        Some(name.to_owned())
    };
    named.or_else(system).and_then(|name| jiff::tz::db().get(&name).ok()).unwrap_or(TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_the_zone_and_an_unknown_one_is_utc() {
        assert_eq!(local_zone(Some("Asia/Shanghai".into())).iana_name(), Some("Asia/Shanghai"));
        assert_eq!(local_zone(Some(":Europe/Berlin".into())).iana_name(), Some("Europe/Berlin"));
        assert_eq!(local_zone(Some("Nowhere/City".into())), TimeZone::UTC);
    }
}

//! Formats of strings, as in the registry of kube-openapi.

use std::net::IpAddr;

use binnacle_meta::Text;
use binnacle_validation::{ip, scala_duration};

mod text;

/// A `format` keyword.
#[derive(Clone, Debug)]
pub struct Format {
    name: Text,
    supported: Option<SupportedFormat>,
}

/// A format with validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupportedFormat {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

impl Format {
    /// Dashes in the name are ignored.
    pub fn new(name: &str) -> Self {
        let supported = match name.replace('-', "").as_str() {
            "bsonobjectid" => SupportedFormat::BsonObjectId,
            "uri" => SupportedFormat::Uri,
            "email" => SupportedFormat::Email,
            "hostname" => SupportedFormat::Hostname,
            "ipv4" => SupportedFormat::Ipv4,
            "ipv6" => SupportedFormat::Ipv6,
            "cidr" => SupportedFormat::Cidr,
            "mac" => SupportedFormat::Mac,
            "uuid" => SupportedFormat::Uuid,
            "uuid3" => SupportedFormat::Uuid3,
            "uuid4" => SupportedFormat::Uuid4,
            "uuid5" => SupportedFormat::Uuid5,
            "isbn" => SupportedFormat::Isbn,
            "isbn10" => SupportedFormat::Isbn10,
            "isbn13" => SupportedFormat::Isbn13,
            "creditcard" => SupportedFormat::CreditCard,
            "ssn" => SupportedFormat::Ssn,
            "hexcolor" => SupportedFormat::HexColor,
            "rgbcolor" => SupportedFormat::RgbColor,
            "byte" => SupportedFormat::Byte,
            "password" => SupportedFormat::Password,
            "date" => SupportedFormat::Date,
            "duration" => SupportedFormat::Duration,
            "datetime" => SupportedFormat::DateTime,
            "k8sshortname" => SupportedFormat::ShortName,
            "k8slongname" => SupportedFormat::LongName,
            _ => return Self { name: name.into(), supported: None },
        };
        Self { name: name.into(), supported: Some(supported) }
    }

    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns the format for validation; `None` for an unknown format, which has no effect.
    pub fn supported(&self) -> Option<SupportedFormat> {
        self.supported
    }
}

impl SupportedFormat {
    /// Returns true if a string has the format.
    pub fn matches(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Uri => text::request_uri(text),
            Self::Email => text::email(text),
            Self::Hostname => text::hostname(text),
            Self::Ipv4 => ip::parse_ip(text).is_some() && text.contains('.'),
            // Without leading zeros, which older versions of Go accepted.
            Self::Ipv6 => text.parse::<IpAddr>().is_ok() && text.contains(':'),
            Self::Cidr => ip::parse_cidr(text).is_some(),
            Self::Mac => text::mac(text),
            Self::Uuid => text::uuid(text, None),
            Self::Uuid3 => text::uuid(text, Some('3')),
            Self::Uuid4 => text::uuid(text, Some('4')),
            Self::Uuid5 => text::uuid(text, Some('5')),
            Self::Isbn => text::isbn10(text) || text::isbn13(text),
            Self::Isbn10 => text::isbn10(text),
            Self::Isbn13 => text::isbn13(text),
            Self::CreditCard => text::credit_card(text),
            Self::Ssn => text::ssn(text),
            Self::HexColor => text::hex_color(text),
            Self::RgbColor => text::rgb_color(text),
            Self::Byte => text::base64(text),
            Self::Password => true,
            Self::Date => text::date(text),
            Self::Duration => scala_duration(text).is_some(),
            Self::DateTime => text::date_time(text),
            Self::ShortName => text.len() <= 63 && text::dns_segment(text),
            Self::LongName => text.len() <= 253 && text.split('.').all(text::dns_segment),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, valid: &[&str], invalid: &[&str]) {
        let supported = Format::new(format).supported().unwrap();
        for text in valid {
            assert!(supported.matches(text), "{format} {text:?}");
        }
        for text in invalid {
            assert!(!supported.matches(text), "{format} {text:?}");
        }
    }

    #[test]
    fn validates_formats() {
        assert!(Format::new("int32").supported().is_none());
        check("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901", "x07f1f77bcf86cd799439011"]);
        check(
            "uri",
            &["http://a/b?c", "/a", "urn:x", "http://a/#b"],
            &["", "a/b", "http://[::1", "a b", "http://a\n", "http://a#b"],
        );
        check("email", &["a@b", "A <a@b.c>", "\"a b\"@c"], &["", "a", "a@", "a@b,c@d", "a b@c"]);
        check("hostname", &["a", "a.example.com", "1a.de", "é.example"], &["", "-a", "a.b1", "a..bc", "a_b.de"]);
        check("ipv4", &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], &["1.2.3", "::1", "256.1.1.1"]);
        check("ipv6", &["::1", "::ffff:1.2.3.4"], &["1.2.3.4", ":::"]);
        check("cidr", &["10.0.0.0/8", "::/0", "010.0.0.1/8"], &["10.0.0.0", "10.0.0.0/33"]);
        check(
            "mac",
            &["01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab"],
            &["01:23", "01:23:45:67:89:ag", "01:23-45:67:89:ab"],
        );
        check("uuid", &["7a3c5e66-1111-2222-3333-444455556666", "7A3C5E66111122223333444455556666"], &["7a3c5e66"]);
        check("uuid4", &["7a3c5e66-1111-4222-a333-444455556666"], &["7a3c5e66-1111-4222-c333-444455556666"]);
        check("isbn", &["0321751043", "978-0321751041"], &["0321751044", "123"]);
        check("creditcard", &["4111-1111-1111-1111"], &["4111-1111-1111-1112", ""]);
        check("ssn", &["111-22-3333", "111 22 3333"], &["111223333", "111-22-333x"]);
        check("hexcolor", &["#FFFFFF", "abc"], &["#FFFF", "ggg"]);
        check("rgbcolor", &["rgb(0,1,255)", "rgb( 12 , 199 , 200 )"], &["rgb(256,0,0)", "rgb(00,0,0)", "rgb(1,2)"]);
        check("byte", &["YQ==", "YWI=", "YWJj"], &["", "YQ=", "Y_=="]);
        check("date", &["2024-02-29"], &["2023-02-29", "2024-2-29", "24-02-29"]);
        check("duration", &["1h30m", "22 ns", "3 days", "0", "1w", "-1s", "1 hours x"], &["", "a", "5"]);
        check(
            "date-time",
            &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00", "2014-12-15T19:30:20x1z"],
            &["2014-12-15", "2014-12-15T24:30:20Z", "2014-12-15T19:30:20"],
        );
        check("k8s-short-name", &["a-b"], &["A", "-a", "a.b", ""]);
        check("k8s-long-name", &["a.b-c"], &["a..b", "A.b", ""]);
    }
}

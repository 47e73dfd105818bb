//! The messages of gnostic's OpenAPIv2 and OpenAPIv3 that documents of a Kubernetes server need.

use super::{Kind, Shape};

const TEXTS: Kind = Kind::Repeated(&Kind::Text);
const ANYS: Kind = Kind::Repeated(&Kind::Any);
/// Requirements of security schemes with their scopes.
const SECURITY: Kind = Kind::Repeated(&Kind::Named(1, &Kind::Wrapped(1, &TEXTS)));

// === Version 2 ===

/// The paths of a document of version 2, and the number of their field.
pub(crate) const V2_PATHS: Kind = Kind::Named(2, &Kind::Message(&V2_PATH));
pub(crate) const V2_PATHS_NUMBER: u32 = 8;
/// The definitions of a document of version 2, and the number of their field.
pub(crate) const V2_DEFINITIONS: Kind = Kind::Named(1, &Kind::Message(&V2_SCHEMA));
pub(crate) const V2_DEFINITIONS_NUMBER: u32 = 9;

pub(crate) static V2: Shape = Shape {
    members: &[
        ("swagger", 1, Kind::Text),
        ("info", 2, Kind::Message(&V2_INFO)),
        ("paths", V2_PATHS_NUMBER, V2_PATHS),
        ("definitions", V2_DEFINITIONS_NUMBER, V2_DEFINITIONS),
        ("parameters", 10, Kind::Named(1, &Kind::Parameter)),
        ("security", 12, SECURITY),
        ("securityDefinitions", 13, Kind::Named(1, &Kind::Wrapped(2, &Kind::Message(&V2_API_KEY)))),
    ],
    extensions: 16,
};

static V2_INFO: Shape = Shape {
    members: &[("title", 1, Kind::Text), ("version", 2, Kind::Text), ("description", 3, Kind::Text)],
    extensions: 7,
};

static V2_PATH: Shape = Shape {
    members: &[
        ("get", 2, Kind::Message(&V2_OPERATION)),
        ("put", 3, Kind::Message(&V2_OPERATION)),
        ("post", 4, Kind::Message(&V2_OPERATION)),
        ("delete", 5, Kind::Message(&V2_OPERATION)),
        ("options", 6, Kind::Message(&V2_OPERATION)),
        ("head", 7, Kind::Message(&V2_OPERATION)),
        ("patch", 8, Kind::Message(&V2_OPERATION)),
        ("parameters", 9, Kind::Repeated(&Kind::ParameterOrReference)),
    ],
    extensions: 10,
};

static V2_OPERATION: Shape = Shape {
    members: &[
        ("tags", 1, TEXTS),
        ("summary", 2, Kind::Text),
        ("description", 3, Kind::Text),
        ("operationId", 5, Kind::Text),
        ("produces", 6, TEXTS),
        ("consumes", 7, TEXTS),
        ("parameters", 8, Kind::Repeated(&Kind::ParameterOrReference)),
        ("responses", 9, Kind::Named(1, &Kind::Wrapped(1, &Kind::Message(&V2_RESPONSE)))),
        ("schemes", 10, TEXTS),
        ("deprecated", 11, Kind::Flag),
        ("security", 12, SECURITY),
    ],
    extensions: 13,
};

static V2_RESPONSE: Shape = Shape {
    members: &[("description", 1, Kind::Text), ("schema", 2, Kind::Wrapped(1, &Kind::Message(&V2_SCHEMA)))],
    extensions: 5,
};

pub(super) static BODY_PARAMETER: Shape = Shape {
    members: &[
        ("description", 1, Kind::Text),
        ("name", 2, Kind::Text),
        ("in", 3, Kind::Text),
        ("required", 4, Kind::Flag),
        ("schema", 5, Kind::Message(&V2_SCHEMA)),
    ],
    extensions: 6,
};

/// In a query or a form: a value may be empty.
pub(super) static QUERY_PARAMETER: Shape = Shape {
    members: &[
        ("required", 1, Kind::Flag),
        ("in", 2, Kind::Text),
        ("description", 3, Kind::Text),
        ("name", 4, Kind::Text),
        ("allowEmptyValue", 5, Kind::Flag),
        ("type", 6, Kind::Text),
        ("format", 7, Kind::Text),
        ("uniqueItems", 20, Kind::Flag),
        ("enum", 21, ANYS),
    ],
    extensions: 23,
};

/// In a header or a path.
pub(super) static HEADER_PARAMETER: Shape = Shape {
    members: &[
        ("required", 1, Kind::Flag),
        ("in", 2, Kind::Text),
        ("description", 3, Kind::Text),
        ("name", 4, Kind::Text),
        ("type", 5, Kind::Text),
        ("format", 6, Kind::Text),
        ("uniqueItems", 19, Kind::Flag),
        ("enum", 20, ANYS),
    ],
    extensions: 22,
};

static V2_SCHEMA: Shape = Shape {
    members: &[
        ("$ref", 1, Kind::Text),
        ("format", 2, Kind::Text),
        ("title", 3, Kind::Text),
        ("description", 4, Kind::Text),
        ("default", 5, Kind::Any),
        ("multipleOf", 6, Kind::Double),
        ("maximum", 7, Kind::Double),
        ("exclusiveMaximum", 8, Kind::Flag),
        ("minimum", 9, Kind::Double),
        ("exclusiveMinimum", 10, Kind::Flag),
        ("maxLength", 11, Kind::Integer),
        ("minLength", 12, Kind::Integer),
        ("pattern", 13, Kind::Text),
        ("maxItems", 14, Kind::Integer),
        ("minItems", 15, Kind::Integer),
        ("uniqueItems", 16, Kind::Flag),
        ("maxProperties", 17, Kind::Integer),
        ("minProperties", 18, Kind::Integer),
        ("required", 19, TEXTS),
        ("enum", 20, ANYS),
        ("additionalProperties", 21, Kind::OrFlag(&Kind::Message(&V2_SCHEMA))),
        ("type", 22, Kind::Wrapped(1, &Kind::Text)),
        ("items", 23, Kind::Wrapped(1, &Kind::Message(&V2_SCHEMA))),
        ("allOf", 24, Kind::Repeated(&Kind::Message(&V2_SCHEMA))),
        ("properties", 25, Kind::Named(1, &Kind::Message(&V2_SCHEMA))),
        ("readOnly", 27, Kind::Flag),
        ("example", 30, Kind::Any),
    ],
    extensions: 31,
};

/// The only scheme in these documents.
static V2_API_KEY: Shape = Shape {
    members: &[("type", 1, Kind::Text), ("name", 2, Kind::Text), ("in", 3, Kind::Text), ("description", 4, Kind::Text)],
    extensions: 5,
};

// === Version 3 ===

pub(crate) static V3: Shape = Shape {
    members: &[
        ("openapi", 1, Kind::Text),
        ("info", 2, Kind::Message(&V3_INFO)),
        ("paths", 4, Kind::Named(1, &Kind::Message(&V3_PATH))),
        ("components", 5, Kind::Message(&V3_COMPONENTS)),
    ],
    extensions: 9,
};

static V3_INFO: Shape = Shape {
    members: &[("title", 1, Kind::Text), ("description", 2, Kind::Text), ("version", 6, Kind::Text)],
    extensions: 7,
};

static V3_COMPONENTS: Shape = Shape {
    members: &[
        ("schemas", 1, Kind::Named(1, &Kind::OrReference(&V3_SCHEMA))),
        ("securitySchemes", 7, Kind::Named(1, &Kind::OrReference(&V3_SECURITY))),
    ],
    extensions: 10,
};

static V3_PATH: Shape = Shape {
    members: &[
        ("get", 4, Kind::Message(&V3_OPERATION)),
        ("put", 5, Kind::Message(&V3_OPERATION)),
        ("post", 6, Kind::Message(&V3_OPERATION)),
        ("delete", 7, Kind::Message(&V3_OPERATION)),
        ("options", 8, Kind::Message(&V3_OPERATION)),
        ("head", 9, Kind::Message(&V3_OPERATION)),
        ("patch", 10, Kind::Message(&V3_OPERATION)),
        ("parameters", 13, Kind::Repeated(&Kind::OrReference(&V3_PARAMETER))),
    ],
    extensions: 14,
};

static V3_OPERATION: Shape = Shape {
    members: &[
        ("tags", 1, TEXTS),
        ("summary", 2, Kind::Text),
        ("description", 3, Kind::Text),
        ("operationId", 5, Kind::Text),
        ("parameters", 6, Kind::Repeated(&Kind::OrReference(&V3_PARAMETER))),
        ("requestBody", 7, Kind::OrReference(&V3_REQUEST_BODY)),
        ("responses", 8, Kind::Named(2, &Kind::OrReference(&V3_RESPONSE))),
        ("deprecated", 10, Kind::Flag),
    ],
    extensions: 13,
};

static V3_PARAMETER: Shape = Shape {
    members: &[
        ("name", 1, Kind::Text),
        ("in", 2, Kind::Text),
        ("description", 3, Kind::Text),
        ("required", 4, Kind::Flag),
        ("schema", 10, Kind::OrReference(&V3_SCHEMA)),
    ],
    extensions: 14,
};

static V3_REQUEST_BODY: Shape = Shape {
    members: &[("description", 1, Kind::Text), ("content", 2, V3_CONTENT), ("required", 3, Kind::Flag)],
    extensions: 4,
};

static V3_RESPONSE: Shape =
    Shape { members: &[("description", 1, Kind::Text), ("content", 3, V3_CONTENT)], extensions: 5 };

const V3_CONTENT: Kind = Kind::Named(1, &Kind::Message(&V3_MEDIA_TYPE));

static V3_MEDIA_TYPE: Shape = Shape { members: &[("schema", 1, Kind::OrReference(&V3_SCHEMA))], extensions: 5 };

static V3_SCHEMA: Shape = Shape {
    members: &[
        ("nullable", 1, Kind::Flag),
        ("readOnly", 3, Kind::Flag),
        ("writeOnly", 4, Kind::Flag),
        ("example", 7, Kind::Any),
        ("deprecated", 8, Kind::Flag),
        ("title", 9, Kind::Text),
        ("multipleOf", 10, Kind::Double),
        ("maximum", 11, Kind::Double),
        ("exclusiveMaximum", 12, Kind::Flag),
        ("minimum", 13, Kind::Double),
        ("exclusiveMinimum", 14, Kind::Flag),
        ("maxLength", 15, Kind::Integer),
        ("minLength", 16, Kind::Integer),
        ("pattern", 17, Kind::Text),
        ("maxItems", 18, Kind::Integer),
        ("minItems", 19, Kind::Integer),
        ("uniqueItems", 20, Kind::Flag),
        ("maxProperties", 21, Kind::Integer),
        ("minProperties", 22, Kind::Integer),
        ("required", 23, TEXTS),
        ("enum", 24, ANYS),
        ("type", 25, Kind::Text),
        ("allOf", 26, Kind::Repeated(&Kind::OrReference(&V3_SCHEMA))),
        ("oneOf", 27, Kind::Repeated(&Kind::OrReference(&V3_SCHEMA))),
        ("anyOf", 28, Kind::Repeated(&Kind::OrReference(&V3_SCHEMA))),
        ("not", 29, Kind::Message(&V3_SCHEMA)),
        ("items", 30, Kind::Wrapped(1, &Kind::OrReference(&V3_SCHEMA))),
        ("properties", 31, Kind::Named(1, &Kind::OrReference(&V3_SCHEMA))),
        ("additionalProperties", 32, Kind::OrFlag(&Kind::OrReference(&V3_SCHEMA))),
        ("default", 33, Kind::Default),
        ("description", 34, Kind::Text),
        ("format", 35, Kind::Text),
    ],
    extensions: 36,
};

static V3_SECURITY: Shape = Shape {
    members: &[
        ("type", 1, Kind::Text),
        ("description", 2, Kind::Text),
        ("name", 3, Kind::Text),
        ("in", 4, Kind::Text),
        ("scheme", 5, Kind::Text),
        ("bearerFormat", 6, Kind::Text),
    ],
    extensions: 9,
};

//! Transcripts of the program: commands in `fixtures/cli` and in the documents are run, and must print what stands there.

#[test]
fn transcripts_are_what_the_program_prints() {
    // Paths in transcripts are those of somebody at the root of the repository.
    std::env::set_current_dir("../..").expect("the repository's root");
    let cases = trycmd::TestCases::new();
    cases.env("NO_COLOR", "1").case("fixtures/cli/*.trycmd").case("fixtures/cli/*.toml");
    for document in ["README.md", "docs/cli.md"] {
        if std::path::Path::new(document).exists() {
            cases.case(document);
        }
    }
}
